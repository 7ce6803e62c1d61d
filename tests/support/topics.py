"""Topics in tests of SQL."""

import json
from typing import Any

from support.postgres import Connection
from support.sql import number

ACCOUNT = "000000000000"

SUBSCRIPTION = {
    "protocol": "sqs",
    "owner": ACCOUNT,
    "principal": "",
    "confirmed": True,
    "signed_unsubscribe": False,
    "attributes": {},
    "base_url": "http://node",
    "account": ACCOUNT,
    "region": "us-east-1",
    "raw": True,
    "filters_body": False,
}
# What a subscription of an address has instead.
HTTP = {"protocol": "http", "account": None, "region": None}


class Topic:
    """A new topic, on a connection."""

    def __init__(self, connection: Connection, name: str = "news") -> None:
        self.connection, self.name = connection, name
        self.id = number(connection, "select topic_id from skipmq.create_topic(%s)", name)

    def subscribe(self, queue: str, **columns: Any) -> str:
        """Subscribe a queue; return the subscription's id."""
        given = json.dumps({**SUBSCRIPTION, "endpoint": queue, "name": queue, **columns})
        return str(
            number(
                self.connection,
                "select subscription_id from skipmq.subscribe(%s, %s)",
                self.id,
                given,
            )
        )

    def publish(self, body: str = "x", **given: Any) -> Any:
        """Publish a message; return its id."""
        names = "".join(f", {name} => %s" for name in given)
        call = f"select skipmq.publish(%s, %s{names})"
        return number(self.connection, call, self.name, body, *given.values())

    def bodies(self) -> list[str]:
        """Return the bodies in all queues."""
        rows = self.connection.execute(
            "select body from skipmq.message where queue_id <> 0 order by id"
        )
        return [body for (body,) in rows]
