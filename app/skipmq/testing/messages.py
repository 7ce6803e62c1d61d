"""Messages as a test looks at them: none is received; and the error of a test."""

import json
from base64 import b64decode
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


class TestingError(Exception):
    """Something that a test asked for cannot be; the message says what to do."""

    # Not a class of tests, to pytest.
    __test__ = False


@dataclass(frozen=True, slots=True)
class Message:
    """A message of a queue; `state` is visible, in-flight or delayed."""

    body: str
    # Its message attributes: numbers are texts, as SQS has them.
    attributes: Mapping[str, str | bytes]
    message_id: str
    group: str | None
    deduplication_id: str | None
    receive_count: int
    state: str
    # Seconds until it is visible.
    visible_in: int

    @classmethod
    def read(cls, shown: Mapping[str, Any]) -> Self:
        """Return the message that PeekMessages shows."""
        system = shown["Attributes"]
        return cls(
            shown["Body"],
            {name: _value(each) for name, each in shown.get("MessageAttributes", {}).items()},
            shown["MessageId"],
            system.get("MessageGroupId"),
            system.get("MessageDeduplicationId"),
            int(system["ApproximateReceiveCount"]),
            shown["State"],
            shown["VisibleInSeconds"],
        )

    def json(self) -> Any:
        """Return what the body says as JSON; raise ValueError when it is none."""
        return json.loads(self.body)


class Messages(list[Message]):
    """Messages in the order in which they were sent."""

    def json(self) -> list[Any]:
        """Return what each body says as JSON; raise ValueError when one is none."""
        return [message.json() for message in self]

    def bodies(self) -> list[str]:
        """Return the bodies."""
        return [message.body for message in self]


def _value(attribute: Mapping[str, str]) -> str | bytes:
    binary = attribute.get("BinaryValue")
    return attribute["StringValue"] if binary is None else b64decode(binary)
