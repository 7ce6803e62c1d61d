"""The databases behind a URL: one, or the partitions whose router it names."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

from skipmq.analytics import jdbc
from skipmq.analytics.jdbc import Source
from skipmq.analytics.postgres import history
from skipmq.database import session
from skipmq.database.partitions import partition_urls

# In seconds, for a partition; another is read while one does not answer.
_CONNECT_TIMEOUT = "5"
_TARGET = "target_session_attrs"


@contextmanager
def opened(url: str) -> Iterator[Source]:
    """Yield the source for a libpq URL, for a router that of its partitions, during the block.

    Raises session.Unavailable if the database, or the router, does not respond.
    """
    with ExitStack() as stack:
        found = stack.enter_context(jdbc.opened(url))
        if (partitions := routed(url)) is not None:
            sources = (stack.enter_context(jdbc.opened(each)) for each in partitions)
            found = replace(found, partitions=tuple(sources))
        yield found


def unavailable(source: Source) -> dict[int, str]:
    """Return the reasons why partitions do not respond, by their numbers."""
    found = {}
    for number, each in enumerate(source.partitions):
        try:
            each.connect().close()
        except session.Unavailable as error:
            found[number] = " ".join(str(error).split())
    return found


def urls(url: str) -> list[str]:
    """Return the URLs of a router's partitions, or that of a database itself.

    Raises session.Unavailable.
    """
    partitions = routed(url)
    return [url] if partitions is None else partitions


def routed(url: str) -> list[str] | None:
    """Return the URLs of a router's partitions, None for a database that is no router.

    They are read as the user of the router's URL, from a standby if that URL asks for one. Raises
    session.Unavailable.
    """
    given = session.parameters(url)
    # Routers have no standbys.
    target = given.pop(_TARGET, None)
    with session.connect(session.conninfo(given), "skipmq analytics") as connection:
        addresses = history.partition_addresses(connection)
    if addresses is None:
        return None
    found = []
    for address in partition_urls(url, addresses):
        partition = {"connect_timeout": _CONNECT_TIMEOUT, **session.parameters(address)}
        found.append(session.conninfo(partition | ({_TARGET: target} if target else {})))
    return found
