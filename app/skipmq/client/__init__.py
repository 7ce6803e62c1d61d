"""The Python client: send in your transaction, and consume, by SQL and without a node."""

from typing import TYPE_CHECKING, Any

from skipmq.client.errors import ClientError
from skipmq.client.outcomes import DeadLetter, Discard, LostMessageError, Retry
from skipmq.client.queue import Queue
from skipmq.client.topic import Topic

if TYPE_CHECKING:
    from skipmq.client.app import App
    from skipmq.client.context import Context

__all__ = [
    "App",
    "ClientError",
    "Context",
    "DeadLetter",
    "Discard",
    "LostMessageError",
    "Queue",
    "Retry",
    "Topic",
]


def __getattr__(name: str) -> Any:
    """Import what needs psycopg and an event loop when it is used: a sender may have neither."""
    if name == "App":
        from skipmq.client.app import App  # noqa: PLC0415

        return App
    if name == "Context":
        from skipmq.client.context import Context  # noqa: PLC0415

        return Context
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
