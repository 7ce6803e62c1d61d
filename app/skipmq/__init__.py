"""SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table."""

from time import monotonic
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipmq.client import Queue as Queue

# The first line of the program that runs: how long a start takes is counted from here.
STARTED = monotonic()

__version__ = "0.1.0"

# What of the client is imported when it is used.
_CLIENT = ("Queue",)


def __getattr__(name: str) -> Any:
    if name in _CLIENT:
        from skipmq import client  # noqa: PLC0415 - when it is used.

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_CLIENT]
