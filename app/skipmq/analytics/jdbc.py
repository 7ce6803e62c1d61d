"""The database that Spark reads: for JDBC, and for short queries of our own."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from urllib.parse import quote, urlencode

from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.postgres import history
from skipmq.analytics.socket_proxy import proxied
from skipmq.database import session
from skipmq.database.session import Session

DRIVER = "org.postgresql.Driver"
# Rows that a cursor brings at once. Never 0: the driver would then fetch all, and outside of the
# transaction that a snapshot needs (PostgresDialect.beforeFetch turns autocommit off only above 0).
FETCH = 10_000
# Seconds that a single query may take, on any server.
STATEMENT_TIMEOUT = 1800
_SAME_NAME = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connect_timeout": "connectTimeout",
}
_FROM_OUTSIDE = {"host", "port", "user", "password", "dbname", "sslmode", "sslrootcert"}
# libpq's word for the server that is wanted, and the driver's.
_TARGETS = {
    "any": "any",
    "read-write": "primary",
    "primary": "primary",
    "read-only": "secondary",
    "standby": "secondary",
    "prefer-standby": "preferSecondary",
}


@dataclass(frozen=True, slots=True)
class Source:
    """A database: its libpq URL, its address for JDBC, and the driver's properties.

    No secret stands in the address, which Spark shows.
    """

    url: str = field(repr=False)
    address: str
    properties: Mapping[str, str] = field(repr=False)

    def connect(self) -> Session:
        """Connect for short queries; raise session.Unavailable when that fails."""
        return session.connect(self.url, "skipmq analytics")

    def read(
        self,
        spark: SparkSession,
        view: str,
        predicates: Sequence[str] = (),
        *,
        snapshot: str = "",
        fetch: int = FETCH,
    ) -> DataFrame:
        """Read a view: a task, a connection and a cursor for each predicate (none: one).

        Only the columns that the frame needs are read. Each task adopts the exported `snapshot`
        first where one is named. Raises ValueError for a fetch of 0.
        """
        if fetch <= 0:
            raise ValueError("a read without a cursor keeps all rows in memory and no snapshot")
        given = {**self.properties, "driver": DRIVER, "fetchsize": str(fetch)}
        if snapshot:
            given["sessionInitStatement"] = history.adopt_snapshot(snapshot)
        return spark.read.jdbc(
            self.address, view, predicates=list(predicates) or ["true"], properties=given
        )


@contextmanager
def opened(url: str) -> Iterator[Source]:
    """Give the source behind a libpq URL, for as long as the block runs.

    A server on a Unix socket, as the embedded one is, is reached through a proxy on the loopback.
    """
    # Java does not read libpq's variables.
    outside = {key: value for key, value in session.environment().items() if key in _FROM_OUTSIDE}
    given = outside | session.parameters(url)
    host, port = (given.get(key, "").split(",")[0] for key in ("host", "port"))
    if host.startswith("/"):
        path = f"{host}/.s.PGSQL.{port or 5432}"
        with proxied(path, given.get("password", "")) as (number, password):
            here = {"host": "127.0.0.1", "port": str(number), "password": password}
            yield _source(given | here)
        return
    yield _source(given)


def pinned(source: Source) -> Source:
    """Return the one server that answers now: a snapshot belongs to a server, not to a cluster.

    Raises session.Unavailable when none answers.
    """
    with source.connect() as connection:
        given = session.parameters(source.url) | session.server(connection)
    for several in ("hostaddr", "target_session_attrs", "load_balance_hosts"):
        given.pop(several, None)
    return _source(given)


def _source(given: Mapping[str, str]) -> Source:
    hosts = given.get("host", "localhost").split(",")
    ports = given.get("port", "5432").split(",")
    ports += ports[-1:] * (len(hosts) - len(ports))
    places = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in zip(hosts, ports, strict=False)
    )
    wanted = {
        "ApplicationName": "skipmq analytics",
        "tcpKeepAlive": "true",
        "prepareThreshold": "-1",
        **{_SAME_NAME[key]: value for key, value in given.items() if key in _SAME_NAME},
    }
    timeout = f"-c statement_timeout={STATEMENT_TIMEOUT}s"
    wanted["options"] = f"{given.get('options', '')} {timeout}".strip()
    if target := given.get("target_session_attrs"):
        wanted["targetServerType"] = _TARGETS[target]
        wanted["hostRecheckSeconds"] = "2"
    if given.get("load_balance_hosts") == "random":
        wanted["loadBalanceHosts"] = "true"
    address = f"jdbc:postgresql://{places}/{quote(given.get('dbname', given['user']))}"
    secrets = {key: given[key] for key in ("user", "password") if key in given}
    return Source(session.conninfo(given), f"{address}?{urlencode(wanted)}", secrets)


def days(source: Source) -> list[date]:
    """Return the days (UTC) that have a partition of the history, in order."""
    with source.connect() as connection:
        return history.days(connection)


def by_day(found: Sequence[date]) -> list[str]:
    """Return predicates, one a day, and those for what was settled on no such day; all disjoint."""
    if not found:
        return ["true"]
    first, last = found[0], found[-1] + timedelta(days=1)
    each = [within(day) for day in found]
    gaps = [
        within(before + timedelta(days=1), after)
        for before, after in pairwise(found)
        if after - before > timedelta(days=1)
    ]
    return [*each, *gaps, f"settled_at < {midnight(first)} or settled_at >= {midnight(last)}"]


def within(begin: date, end: date | None = None) -> str:
    """Return the condition on what was settled from a day to before another (none: the next)."""
    after = end or begin + timedelta(days=1)
    return f"settled_at >= {midnight(begin)} and settled_at < {midnight(after)}"


def midnight(day: date) -> str:
    """Return the beginning of a day (UTC) as SQL writes it."""
    return f"timestamptz '{day.isoformat()} 00:00:00+00'"
