"""The database that Spark reads, for JDBC, and for the short questions that are asked beside it."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import quote, urlencode

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Conninfo, TransactionStatus
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.bridge import bridged
from skipmq.analytics.session import TRIES

DRIVER = "org.postgresql.Driver"
# Rows that a cursor brings at once. Never 0: the driver would then fetch all, and outside of the
# transaction that a snapshot needs (PostgresDialect.beforeFetch turns autocommit off only above 0).
FETCH = 10_000
# Seconds that a single read may take, on any server.
STATEMENT_TIMEOUT = 1800
_SAME_NAME = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connect_timeout": "connectTimeout",
    "options": "options",
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

Connection = psycopg.Connection[tuple[Any, ...]]


class _Patient(Connection):
    """Asks again, as often as Spark tries a task, what a standby cancels."""

    def execute(self, *args: Any, **options: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        for _ in range(TRIES - 1):
            try:
                return super().execute(*args, **options)
            except psycopg.errors.SerializationFailure:
                # Within a transaction there is nothing to go on with.
                if self.info.transaction_status != TransactionStatus.IDLE:
                    raise
        return super().execute(*args, **options)


def connect(url: str, name: str) -> Connection:
    """Connect for questions, each of which is a transaction of its own.

    `name` is the application's. What a standby cancels is asked again, three times at most. Raises
    psycopg.OperationalError when the database is away.
    """
    return _Patient.connect(url, autocommit=True, application_name=name)


@dataclass(frozen=True, slots=True)
class Source:
    """A database: its libpq URL, its address for JDBC, and the driver's properties.

    No secret stands in the address, which Spark shows.
    """

    url: str
    address: str
    properties: Mapping[str, str] = field(repr=False)

    def connect(self) -> Connection:
        """Connect for questions; raise psycopg.OperationalError when the database is away."""
        return connect(self.url, "skipmq analytics")

    def read(
        self,
        spark: SparkSession,
        query: str,
        predicates: Sequence[str] = (),
        *,
        session: str = "",
        fetch: int = FETCH,
    ) -> DataFrame:
        """Read a query: a task, a connection and a cursor for each predicate (none: one).

        `session` is run in each connection before its query. Raises ValueError for a fetch of 0.
        """
        if fetch <= 0:
            raise ValueError("a read without a cursor keeps all rows in memory and no snapshot")
        statements = f"set statement_timeout = '{STATEMENT_TIMEOUT}s'; {session}"
        return spark.read.jdbc(
            self.address,
            f"({query}) as skipmq_rows",
            predicates=list(predicates) or ["true"],
            properties={
                **self.properties,
                "driver": DRIVER,
                "fetchsize": str(fetch),
                "sessionInitStatement": statements,
            },
        )


@contextmanager
def opened(url: str) -> Iterator[Source]:
    """Give the source behind a libpq URL, for as long as the block runs.

    A server on a socket of this machine, as the embedded one is, is reached through a port of the
    loopback that only this account can use.
    """
    # What libpq takes from the environment Java has to be told.
    ours = {option.keyword.decode(): option.val for option in Conninfo.get_defaults()}
    given = {key: value.decode() for key, value in ours.items() if value and key in _FROM_OUTSIDE}
    given |= {key: str(value) for key, value in conninfo_to_dict(url).items() if value is not None}
    hosts = given.get("host", "localhost").split(",")
    ports = given.get("port", "5432").split(",")
    if hosts[0].startswith("/"):
        with bridged(f"{hosts[0]}/.s.PGSQL.{ports[0]}") as port:
            yield _source({**given, "host": "127.0.0.1", "port": str(port)})
        return
    yield _source(given)


def pinned(source: Source) -> Source:
    """Return the one server that answers now: a snapshot belongs to a server, not to a cluster.

    Raises psycopg.OperationalError when none answers.
    """
    with source.connect() as connection:
        info = connection.info
        one = {"host": info.host, "port": str(info.port), "password": info.password}
    given = {k: str(v) for k, v in conninfo_to_dict(source.url).items() if v is not None}
    for several in ("hostaddr", "target_session_attrs", "load_balance_hosts"):
        given.pop(several, None)
    return _source(given | {key: value for key, value in one.items() if value})


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
    if target := given.get("target_session_attrs"):
        wanted["targetServerType"] = _TARGETS[target]
        wanted["hostRecheckSeconds"] = "2"
    if given.get("load_balance_hosts") == "random":
        wanted["loadBalanceHosts"] = "true"
    address = f"jdbc:postgresql://{places}/{quote(given.get('dbname', given['user']))}"
    secrets = {key: given[key] for key in ("user", "password") if key in given}
    return Source(make_conninfo("", **given), f"{address}?{urlencode(wanted)}", secrets)


def days(source: Source) -> list[date]:
    """Return the days (UTC) that have a partition of the history, in order."""
    with source.connect() as connection:
        rows = connection.execute(
            "select to_date(right(c.relname, 8), 'YYYYMMDD') from pg_inherits i"
            " join pg_class c on c.oid = i.inhrelid join pg_class p on p.oid = i.inhparent"
            " join pg_namespace n on n.oid = p.relnamespace"
            " where n.nspname = 'skipmq' and p.relname = 'history' and c.relname ~ '_[0-9]{8}$'"
            " order by 1"
        ).fetchall()
    return [row[0] for row in rows]


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


def within(begin: date, end: date | None = None, column: str = "settled_at") -> str:
    """Return the condition on what was settled from a day to before another (none: the next)."""
    after = end or begin + timedelta(days=1)
    return f"{column} >= {midnight(begin)} and {column} < {midnight(after)}"


def midnight(day: date) -> str:
    """Return the beginning of a day (UTC) as SQL writes it."""
    return f"timestamptz '{day.isoformat()} 00:00:00+00'"


def literal(text: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"
