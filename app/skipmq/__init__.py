"""SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table."""

from typing import TYPE_CHECKING, Any

from skipmq import release  # First, since it notes the time.

if TYPE_CHECKING:
    from skipmq.client import App as App
    from skipmq.client import Context as Context
    from skipmq.client import DeadLetter as DeadLetter
    from skipmq.client import Discard as Discard
    from skipmq.client import Queue as Queue
    from skipmq.client import Retry as Retry
    from skipmq.client import Topic as Topic

__version__ = release.VERSION

# What of the client is imported when it is used.
_CLIENT = ("App", "Context", "DeadLetter", "Discard", "Queue", "Retry", "Topic")


def __getattr__(name: str) -> Any:
    if name in _CLIENT:
        from skipmq import client  # noqa: PLC0415 - when it is used.

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), *_CLIENT]
