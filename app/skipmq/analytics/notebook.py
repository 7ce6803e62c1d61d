"""The database's connection for `spark.read.jdbc` in notebooks and other jobs."""

import atexit
from contextlib import ExitStack
from functools import cache
from pathlib import Path

from skipmq import config, embedded
from skipmq.analytics import jdbc
from skipmq.analytics.jdbc import DRIVER, FETCH, Source
from skipmq.database import address, session
from skipmq.embedded import EmbeddedError

READER = "skipmq_reader"
_opened_sources = ExitStack()


def connection(role: str = READER) -> tuple[str, dict[str, str]]:
    """Return the URL and the properties of the configured database for `spark.read.jdbc`.

    An embedded database must be running and is read as `role`: skipmq_reader can read the views,
    postgres also the tables. Its loopback port requires the password in the properties and stays
    open until this process ends. Raises ConfigError, EmbeddedError.
    """
    source = _source(_url(role))
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
