"""The database's connection for `spark.read.jdbc` in notebooks and other jobs."""

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from skipmq import config
from skipmq.analytics import jdbc, partitions
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.jdbc import DRIVER, FETCH, Source
from skipmq.database import address, embedded, session
from skipmq.database.embedded import EmbeddedError

READER = "skipmq_reader"
_opened_sources = ExitStack()


def connection(role: str = READER, partition: int | None = None) -> tuple[str, dict[str, str]]:
    """Return the URL and the properties of the configured database for `spark.read.jdbc`.

    An embedded database must be running and is read as `role`: skipmq_reader can read the views,
    postgres also the tables. Its loopback port requires the password in the properties and stays
    open until this process ends. Behind a router `partition` is the one to read, as a query has one
    database. Raises ConfigError, EmbeddedError, AnalyticsError for a partition that there is not.
    """
    url = _url(role)
    if (routed := partitions.routed(url)) is not None:
        if partition is None or partition not in range(len(routed)):
            last = len(routed) - 1
            raise AnalyticsError(f"the database is a router: specify a partition, 0 to {last}")
        url = routed[partition]
    source = _source(url)
    return source.address, {**source.properties, "driver": DRIVER, "fetchsize": str(FETCH)}


def _url(role: str) -> str:
    settings = address.checked(config.load()).settings
    if url := settings.analytics_url or settings.database_url:
        return url
    folder = Path(settings.data_dir) if settings.data_dir else embedded.default_data_dir()
    status = embedded.status(folder)
    if status.url is None:
        raise EmbeddedError(str(status))
    return session.as_role(status.url, role)


@cache
def _source(url: str) -> Source:
    return _opened_sources.enter_context(jdbc.opened(url))


atexit.register(_opened_sources.close)
