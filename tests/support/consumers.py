"""Consumers in this process, and what they left in the database."""

from dataclasses import dataclass
from typing import Any

import pytest

from skipmq import Queue
from support.applications import receive
from support.postgres import Connection
from support.sql import Queue as Table
from support.sql import redrive_policy

BOUGHT = "insert into public.bought values (%s)"
each_kind = pytest.mark.parametrize("name", ["orders", "orders.fifo"])


@dataclass
class Order:
    n: int


class BrokenError(Exception):
    pass


def send(sender: Connection, queue: Queue[Any], *bodies: Any, group: str = "g") -> None:
    ids = [f"{group}-{n}" for n, _ in enumerate(bodies)] if queue.fifo else None
    queue.send_many(
        bodies, using=sender, group=group if queue.fifo else None, deduplication_ids=ids
    )


def never_called(body: Any) -> None:
    pytest.fail(f"handled {body}")


def bought(owner: Connection) -> list[str]:
    return [item for (item,) in owner.execute("select item from public.bought order by 1")]


def dead(owner: Connection, *, most: int = 100) -> None:
    """Give each queue a dead-letter queue."""
    for name, target in {"orders": "dead", "orders.fifo": "dead.fifo"}.items():
        Table(owner, target)
        owner.execute(
            "select skipmq.set_queue_attributes(skipmq.queue_id(%s),"
            " jsonb_build_object('RedrivePolicy', %s::text))",
            (name, redrive_policy(target, most)),
        )


def dead_letters(owner: Connection, name: str) -> list[tuple[str, str]]:
    """Return the bodies and reasons in the dead-letter queue."""
    rows = receive(owner, name.replace("orders", "dead"), timeout=0)
    return [(r["body"], r["attributes"]["FailureReason"]["StringValue"]) for r in rows]


def hidden(owner: Connection) -> list[tuple[str, int, float, str | None]]:
    """Return what is in flight: body, receives that count, seconds, and why it failed."""
    return owner.execute(
        "select body, receive_count - receive_base,"
        " extract(epoch from visible_at - clock_timestamp())::float,"
        " attributes::json -> 'FailureReason' ->> 'StringValue'"
        " from skipmq.message where queue_id > 0 and visible_at > clock_timestamp() order by id"
    ).fetchall()
