"""A real broker in your tests: a pytest fixture, a context manager, a base of unittest's cases.

The server is a process of its own, on a PostgreSQL that is gone with it. Nothing of it is imported
here, and boto3 only when a client is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skipmq.testing.account import Account, Snapshot
    from skipmq.testing.cases import TestCase
    from skipmq.testing.messages import Message, Messages, TestingError
    from skipmq.testing.server import Server, install

__all__ = [
    "Account",
    "Message",
    "Messages",
    "Server",
    "Snapshot",
    "TestCase",
    "TestingError",
    "install",
]

_PLACES = {
    "Account": "account",
    "Message": "messages",
    "Messages": "messages",
    "Server": "server",
    "Snapshot": "account",
    "TestCase": "cases",
    "TestingError": "messages",
    "install": "server",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: a run of pytest that needs none of it does not pay for it."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
