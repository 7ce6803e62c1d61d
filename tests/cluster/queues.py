"""The queues of a run, and what their messages look like."""

import zlib
from dataclasses import dataclass

FILLING = 300


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue with those who use it."""

    name: str
    producers: int
    consumers: int
    groups: int = 0
    delay: int = 0
    # The most that may be in flight, and the queues that get the same through a topic.
    limit: int = 0
    copies: tuple[str, ...] = ()

    @property
    def fifo(self) -> bool:
        return self.groups > 0

    @property
    def attributes(self) -> dict[str, str]:
        fifo = {"FifoQueue": "true"} if self.fifo else {}
        limited = {"MaximumInFlight": str(self.limit)} if self.limit else {}
        return {"DelaySeconds": str(self.delay), **fifo, **limited}


# Half of all messages wait for some seconds before anybody may have them: so there are always some
# that a crash could lose.
QUEUES = (
    Queue("standard", producers=1, consumers=2),
    Queue("delayed", producers=1, consumers=2, delay=3),
    Queue("many-groups.fifo", producers=2, consumers=2, groups=40, delay=3),
    Queue("few-groups.fifo", producers=2, consumers=2, groups=4),
    # What is sent to the first is published to a topic of its name, for both.
    Queue("ledger.fifo", producers=1, consumers=2, groups=10, limit=30, copies=("mirror",)),
    Queue("mirror", producers=0, consumers=2, limit=30),
)


def body(value: str) -> str:
    """Return the value with some filling, always the same for it."""
    return value + "." * (zlib.crc32(value.encode()) % FILLING)


def value_of(text: str) -> str:
    """Return the value of a body; of one that nobody can have sent, all of it."""
    value = text.rstrip(".")
    return value if text == body(value) else text
