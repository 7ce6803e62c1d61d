"""The database as a source for Spark's JDBC reader and for short queries."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from threading import Event, Thread
from urllib.parse import quote, urlencode
from uuid import uuid4

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from skipmq.analytics.postgres import history
from skipmq.analytics.spark.socket_proxy import proxied
from skipmq.database import pins, session
from skipmq.database.session import Session

DRIVER = "org.postgresql.Driver"
# The default fetch size in rows. With 0 the driver would fetch all rows at once and outside of the
# snapshot's transaction (PostgresDialect.beforeFetch disables autocommit only above 0).
FETCH = 10_000
# In seconds.
STATEMENT_TIMEOUT = 1800
# In seconds. The server answers each fetch within its statement timeout, or ends it; only one that
# is frozen is silent for longer.
_SILENCE, _LOGIN = STATEMENT_TIMEOUT + 60, 30
# Sockets that the interrupt of a task closes, so that a read of a frozen server can be cancelled.
_SOCKETS = "org.apache.hadoop.net.StandardSocketFactory"
_SAME_NAME = {
    "sslmode": "sslmode",
    "sslrootcert": "sslrootcert",
    "sslcert": "sslcert",
    "sslkey": "sslkey",
    "connect_timeout": "connectTimeout",
}
# Seconds between two cancellations: of a job, and of one that begins after it.
_PAUSE = 1.0
_FROM_ENVIRONMENT = {"host", "port", "user", "password", "dbname", "sslmode", "sslrootcert"}
# Values of libpq's target_session_attrs and of the driver's targetServerType.
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
    """A database: its libpq URL, its JDBC URL, and the driver's properties.

    Spark shows the JDBC URL, so secrets are in the properties. A router has no history; its
    `partitions` have, in the order of their numbers.
    """

    url: str = field(repr=False)
    address: str
    properties: Mapping[str, str] = field(repr=False)
    partitions: tuple["Source", ...] = ()

    @property
    def databases(self) -> Sequence["Source"]:
        """The databases that have the history: this one, or a router's partitions."""
        return self.partitions or (self,)

    def connect(self) -> Session:
        """Connect for short queries; raise session.Unavailable."""
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
        """Read a view, with a task, a connection and a cursor for each predicate.

        Only the columns that the frame uses are read. With an exported `snapshot`, each task
        imports it first. Raises ValueError for a fetch size of 0.
        """
        if fetch <= 0:
            raise ValueError("without a cursor all rows are held in memory, and without a snapshot")
        properties = {**self.properties, "driver": DRIVER, "fetchsize": str(fetch)}
        if snapshot:
            properties["sessionInitStatement"] = history.adopt_snapshot(snapshot)
        return spark.read.jdbc(
            self.address, view, predicates=list(predicates) or ["true"], properties=properties
        )


@contextmanager
def opened(url: str) -> Iterator[Source]:
    """Yield the source for a libpq URL, usable during the block.

    A server on a Unix socket, such as the embedded one, is accessed through a loopback proxy.
    """
    # The JDBC driver does not read libpq's environment variables.
    environment = {k: v for k, v in session.environment().items() if k in _FROM_ENVIRONMENT}
    parameters = environment | session.parameters(url)
    host, port = (parameters.get(key, "").split(",")[0] for key in ("host", "port"))
    if host.startswith("/"):
        path = f"{host}/.s.PGSQL.{port or 5432}"
        with proxied(path, parameters.get("password", "")) as (number, password):
            proxy = {"host": "127.0.0.1", "port": str(number), "password": password}
            yield _source(parameters | proxy)
        return
    yield _source(parameters)


def pinned(source: Source) -> Source:
    """Return the server that now responds as a source, because a snapshot is valid on one server.

    Raises session.Unavailable.
    """
    with source.connect() as connection:
        return _source(session.parameters(session.same_server(connection)))


def _source(parameters: Mapping[str, str]) -> Source:
    hosts = parameters.get("host", "localhost").split(",")
    ports = parameters.get("port", "5432").split(",")
    ports += ports[-1:] * (len(hosts) - len(ports))
    addresses = ",".join(
        f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        for host, port in zip(hosts, ports, strict=False)
    )
    query = {
        "ApplicationName": "skipmq analytics",
        "tcpKeepAlive": "true",
        "loginTimeout": str(_LOGIN),
        "socketTimeout": str(_SILENCE),
        "socketFactory": _SOCKETS,
        "prepareThreshold": "-1",
        **{_SAME_NAME[key]: value for key, value in parameters.items() if key in _SAME_NAME},
    }
    timeout = f"-c statement_timeout={STATEMENT_TIMEOUT}s"
    query["options"] = pins.options(f"{parameters.get('options', '')} {timeout}", {})
    if target := parameters.get("target_session_attrs"):
        query["targetServerType"] = _TARGETS[target]
        query["hostRecheckSeconds"] = "2"
    if parameters.get("load_balance_hosts") == "random":
        query["loadBalanceHosts"] = "true"
    address = f"jdbc:postgresql://{addresses}/{quote(parameters.get('dbname', parameters['user']))}"
    secrets = {key: parameters[key] for key in ("user", "password") if key in parameters}
    return Source(session.conninfo(parameters), f"{address}?{urlencode(query)}", secrets)


def days(source: Source) -> list[date]:
    """Return the days (UTC) that have a partition of the history, in order."""
    with source.connect() as connection:
        return history.days(connection)


def by_day(days: Sequence[date]) -> list[str]:
    """Return disjoint predicates on settled_at: one for each day, and some for all other times."""
    if not days:
        return ["true"]
    each = [history.within(day) for day in days]
    gaps = [
        history.within(before + timedelta(days=1), after)
        for before, after in pairwise(days)
        if after - before > timedelta(days=1)
    ]
    first, last = map(history.midnight, (days[0], days[-1] + timedelta(days=1)))
    return [*each, *gaps, f"settled_at < {first} or settled_at >= {last}"]


@contextmanager
def watched(spark: SparkSession, source: Source) -> Iterator[None]:
    """Cancel the Spark jobs of the block if a database of the source freezes.

    The executors' connections only have a limit that is longer than any statement may take, because
    a long statement is as silent as a frozen server. That one opens no session is found out here.
    The block must be run by one thread. Raises session.Unavailable then.
    """
    context, tag, ended = spark.sparkContext, f"skipmq-{uuid4()}", Event()
    reasons: list[str] = []
    Thread(target=_watch, args=(context, tag, source, ended, reasons), daemon=True).start()
    context.addJobTag(tag)
    context.setInterruptOnCancel(interruptOnCancel=True)
    try:
        yield
    except (PySparkException, Py4JError) as error:
        if reasons:
            raise session.Unavailable(reasons[0]) from error
        raise
    finally:
        ended.set()
        context.removeJobTag(tag)
        context.setInterruptOnCancel(interruptOnCancel=False)


def _watch(
    context: SparkContext, tag: str, source: Source, ended: Event, reasons: list[str]
) -> None:
    urls = [each.url for each in source.databases]
    while not ended.wait(min(map(session.silence_limit, urls))):
        reasons += [reason for url in urls if (reason := session.frozen(url)) is not None]
        while reasons and not ended.wait(_PAUSE):
            context.cancelJobsWithTag(tag)
