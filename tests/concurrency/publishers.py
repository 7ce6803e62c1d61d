"""Who publishes to topics, by the wire of SNS."""

import socket
import time
from collections.abc import Callable
from typing import Any

from cluster.client import Client
from cluster.sns import HEADS, form
from concurrency.clients import User
from concurrency.hang_ups import close, mid_answer, reset
from concurrency.queues import Topic, attributes_of

_PATIENCE = 20


class Publisher(User):
    """Publishes a message at a time; sometimes it hangs up before it is answered."""

    def run(self) -> None:
        while self.world.open():
            topic = self.chance.choice(self.world.topics)
            value, group = self.a_message(topic)
            question = _form(topic, value, group)
            begun = time.monotonic()
            if self.chance.random() < 0.15:
                self._leave(question)
                self.note("publish", begun, "info", topic.name, value=value, group=group)
            else:
                outcome, error, _ = self.tried(_published(question))
                known = {"value": value, "group": group, "error": error}
                self.note("publish", begun, outcome, topic.name, **known)
            self.nap(0.15)
        self.close()

    def _leave(self, question: bytes) -> None:
        node = self.chance.choice(self.world.nodes)
        heads = {"Host": "localhost", "Content-Length": str(len(question)), **HEADS}
        lines = ["POST / HTTP/1.1", *(f"{name}: {value}" for name, value in heads.items())]
        try:
            asker = socket.create_connection(("127.0.0.1", node.port), timeout=_PATIENCE)
            asker.sendall("\r\n".join(lines).encode() + b"\r\n\r\n" + question)
        except OSError:
            return
        self.nap(self.chance.choice([0, 0.01]))
        way = self.chance.choice([close, reset, mid_answer])
        way(asker)


def _published(question: bytes) -> Callable[[Client], dict[str, Any]]:
    def ask(client: Client) -> dict[str, Any]:
        client.post(question, HEADS)
        return {}

    return ask


def _form(topic: Topic, value: str, group: str) -> bytes:
    more = {"MessageGroupId": group} if group else {}
    if topic.deduplicates:
        more["MessageDeduplicationId"] = value
    for place, (name, attribute) in enumerate(attributes_of(value).items(), 1):
        entry = f"MessageAttributes.entry.{place}"
        more[f"{entry}.Name"] = name
        more |= {f"{entry}.Value.{key}": text for key, text in attribute.items()}
    return form("Publish", TopicArn=topic.arn, Message=value, **more)
