"""Synchronous sessions with PostgreSQL, for the command line and analytics."""

import re
from collections.abc import Generator, Mapping
from time import monotonic
from typing import Any, TypeAlias, TypeVar

import psycopg
from psycopg.conninfo import make_conninfo
from psycopg.pq import Conninfo, TransactionStatus

from skipmq.database import address, pins

Session: TypeAlias = psycopg.Connection[tuple[Any, ...]]
_Opened = TypeVar("_Opened", bound=psycopg.Connection[Any])
Error = psycopg.Error
# The server is unreachable or has ended the session.
Unavailable = psycopg.OperationalError

# libpq's question to the user, after the reason.
_HINT = re.compile(r"\s*Is the server running[^?]*\?")
# Tries of a statement that a standby cancels.
_TRIES = 4
# In seconds; libpq's own minimum.
_CONNECT_TIMEOUT, _SHORTEST_TIMEOUT = "10", 2.0
# A reader's role has limits of its own for statements and transactions.
_READING = {"idle_session_timeout": "0", "lock_timeout": "0"}
# Tries to connect to a server that is silent.
_PROBES = 2
# Parameters that choose one of several servers.
_CHOICE = ("hostaddr", "target_session_attrs", "load_balance_hosts")


class _WatchedConnection(Session):
    """A connection that retries a statement that a standby cancels, and waits for no frozen server.

    The machine of a frozen server acknowledges what it is sent, so TCP does not notice. A long
    statement is as silent, but other sessions can then be opened.
    """

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        for _ in range(_TRIES - 1):
            try:
                return super().execute(*args, **options)
            except psycopg.errors.SerializationFailure:
                # Within a transaction the earlier statements are lost too.
                if self.info.transaction_status != TransactionStatus.IDLE:
                    raise
        return super().execute(*args, **options)

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        return super().wait(self._heard(gen), *args, **options)

    def _heard(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """Do what psycopg's generator does; raise Unavailable if the server is found frozen."""
        heard = monotonic()
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    heard = monotonic()
                elif monotonic() - heard > _SHORTEST_TIMEOUT and self._is_overdue(heard):
                    if (reason := frozen(same_server(self))) is not None:
                        self.pgconn.finish()
                        raise Unavailable(reason)
                    heard = monotonic()
                wanted = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _is_overdue(self, heard: float) -> bool:
        return monotonic() - heard > silence_limit(self.info.dsn)


def silence_limit(url: str) -> float:
    """Return the connect_timeout of a URL in seconds, after which a silent server is probed."""
    given = float(parameters(url).get("connect_timeout", 0)) or float(_CONNECT_TIMEOUT)
    return max(given, _SHORTEST_TIMEOUT)


def frozen(url: str) -> str | None:
    """Return the reason why a server is frozen, None if it opens sessions or refuses to.

    A frozen server lets two attempts to connect time out.
    """
    given = {"connect_timeout": _CONNECT_TIMEOUT, **parameters(url)}
    for _ in range(_PROBES):
        try:
            open_pinned(psycopg.Connection, given | {"application_name": "skipmq probe"}).close()
        except psycopg.errors.ConnectionTimeout:
            continue
        except Unavailable:
            return None
        return None
    return f"{_place(given)} has stopped responding: its server is frozen or overloaded"


def same_server(session: Session) -> str:
    """Return the URL of the server that the session is connected to, alone of several."""
    given = parameters(session.info.dsn)
    return conninfo({k: v for k, v in given.items() if k not in _CHOICE} | server(session))


def connect(url: str, name: str, *, writing: bool = False) -> Session:
    """Connect in autocommit mode, with the application_name `name`.

    With `writing` connect to the primary of several servers in the URL. A statement that a standby
    cancels is tried four times. Statements may take any time, unless the server is frozen, or the
    reader's role has a limit. Raises Unavailable, as all that uses the session does.
    """
    given = {"connect_timeout": _CONNECT_TIMEOUT, **pins.KEEPALIVE, **parameters(url)}
    if writing and "," in given.get("host", "") + given.get("port", ""):
        given.setdefault("target_session_attrs", "read-write")
    given |= {"application_name": name}
    try:
        return open_pinned(_WatchedConnection, given, pins.UNLIMITED if writing else _READING)
    except psycopg.errors.ConnectionTimeout as error:
        raise psycopg.errors.ConnectionTimeout(
            f"{_place(given)} opened no session in {silence_limit(url):.0f} s: its address is"
            " wrong, or its server is frozen or overloaded"
        ) from error


def open_pinned(
    kind: type[_Opened],
    given: Mapping[str, str],
    limits: Mapping[str, str] = pins.UNLIMITED,
    *,
    autocommit: bool = True,
) -> _Opened:
    """Open a session of a kind with the pins; without them where a pooler refuses options.

    Raises psycopg.OperationalError.
    """
    try:
        session = kind.connect(conninfo(pins.pinned(given, limits)), autocommit=True)
    except psycopg.OperationalError as error:
        if not pins.is_refused(error):
            raise
        session = kind.connect(conninfo({**given, "client_encoding": "UTF8"}), autocommit=True)
    else:
        if limits and session.info.server_version >= pins.TRANSACTION_TIMEOUT:
            session.execute(pins.LIFT_TRANSACTION_TIMEOUT, (session.info.backend_pid,))
    session.autocommit = autocommit
    return session


def _place(given: Mapping[str, str]) -> str:
    host, port = given.get("host", "localhost"), given.get("port", "5432")
    return f"the database {given.get('dbname') or given.get('user', '')} at {host}:{port}"


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


def one(session: psycopg.Connection[Any], query: Any, *parameters: object) -> Any:
    """Return the row of a query that has one; without parameters % needs no escaping."""
    row = session.execute(query, parameters or None).fetchone()
    assert row is not None
    return row


def explain(error: Error, setting: str = "SKIPMQ_DATABASE_URL") -> str:
    """Return a one-line error text for the user, which names the setting that holds the URL."""
    if isinstance(error, Unavailable):
        return f"the database cannot be reached: {reason(error)}. Check {setting}: `skipmq doctor`"
    # Leave out the context, which quotes whole statements.
    refusal = error.diag.message_primary or reason(error)
    return f"the database refuses: {refusal}. Check its role and schema: `skipmq doctor`"


def reason(error: Error) -> str:
    """Return what the server or libpq says of an error, in one line."""
    return _HINT.sub("", " ".join(str(error).split()))
