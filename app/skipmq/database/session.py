"""Synchronous sessions with PostgreSQL, for the command line and analytics."""

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo, TransactionStatus

from skipmq.database import address

Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]
Error = psycopg.Error
# The server is unreachable or has ended the session.
Unavailable = psycopg.OperationalError

# libpq's question to the user, after the reason.
_HINT = re.compile(r"\s*Is the server running[^?]*\?")
# Tries of a statement that a standby cancels.
_TRIES = 4
# Notice within some ten seconds that a server is gone without closing the connection.
_KEEPALIVE = {
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
}


class _RetryingConnection(Session):
    """A connection that retries a statement that a standby cancels."""

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        for _ in range(_TRIES - 1):
            try:
                return super().execute(*args, **options)
            except psycopg.errors.SerializationFailure:
                # Within a transaction the earlier statements are lost too.
                if self.info.transaction_status != TransactionStatus.IDLE:
                    raise
        return super().execute(*args, **options)


def connect(url: str, name: str, *, writing: bool = False) -> Session:
    """Connect in autocommit mode, with the application_name `name`.

    With `writing` connect to the primary of several servers in the URL. A statement that a standby
    cancels is tried four times. Raises Unavailable.
    """
    given = {**_KEEPALIVE, **parameters(url)}
    if writing and "," in given.get("host", "") + given.get("port", ""):
        given.setdefault("target_session_attrs", "read-write")
    given |= {"application_name": name, "client_encoding": "UTF8"}
    return _RetryingConnection.connect(conninfo(given), autocommit=True)


def parameters(url: str) -> dict[str, str]:
    """Return the connection parameters in a libpq URL or key-value string."""
    found = address.parameters(url)
    found.pop("application_name", None)
    return found


def environment() -> dict[str, str]:
    """Return the connection parameters that libpq reads from the environment or has by default."""
    return {
        option.keyword.decode(): option.val.decode()
        for option in Conninfo.get_defaults()
        if option.val
    }


def variables(url: str) -> tuple[dict[str, str], dict[str, str]]:
    """Return the parameters of a URL as environment variables of libpq, and those without one."""
    given = address.parameters(url)
    names = {o.keyword.decode(): o.envvar.decode() for o in Conninfo.get_defaults() if o.envvar}
    return (
        {names[key]: value for key, value in given.items() if key in names},
        {key: value for key, value in given.items() if key not in names},
    )


def conninfo(given: Mapping[str, str]) -> str:
    """Return parameters as a key-value string, which libpq accepts like a URL."""
    return make_conninfo("", **given)


def as_role(url: str, role: str) -> str:
    """Return the address of the same database for another role."""
    return make_conninfo(url, user=role)


def server(session: Session) -> dict[str, str]:
    """Return host, port and password of the server that the session is connected to."""
    info = session.info
    return {
        key: value
        for key, value in (
            ("host", info.host),
            ("port", str(info.port)),
            ("password", info.password),
        )
        if value
    }


def explain(error: Error, setting: str = "SKIPMQ_DATABASE_URL") -> str:
    """Return a one-line error text for the user, which names the setting that holds the URL."""
    reason = _HINT.sub("", " ".join(str(error).split()))
    if isinstance(error, Unavailable):
        return f"the database cannot be reached: {reason}. Check {setting}: `skipmq doctor`"
    # Leave out the context, which quotes whole statements.
    reason = error.diag.message_primary or reason
    return f"the database refuses: {reason}. Check its role and schema: `skipmq doctor`"
