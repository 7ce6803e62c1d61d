"""For notebooks, and jobs of your own: what plain `spark.read.jdbc` takes."""

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
_kept = ExitStack()


def connection(role: str = READER) -> tuple[str, dict[str, str]]:
    """Return the URL and the properties of the settings' database for `spark.read.jdbc`.

    The embedded one, which must run, is read as `role`: skipmq_reader has the views, postgres the
    tables too. Its port on the loopback asks for the password in the properties, and is open until
    this process ends. Raises ConfigError, and EmbeddedError when no server runs.
    """
    source = _reached(_url(role))
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
def _reached(url: str) -> Source:
    """Keep what reaches a database for as long as the process lives."""
    return _kept.enter_context(jdbc.opened(url))


atexit.register(_kept.close)
