"""The overview of the database that a node keeps."""

import asyncio

from skipmq.broker.overview import Overviews
from skipmq.database.partitions import Database
from skipmq.database.replication import Replication
from support.loop import eventually
from support.postgres import Databases, as_node


async def test_overview_is_read_without_a_caller(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    database = Database(as_node(url), size=1)
    overviews = Overviews(database, Replication(database))
    running = asyncio.get_running_loop().create_task(overviews.run())

    def latest() -> list[object]:
        caches = overviews._caches.values()  # noqa: SLF001
        return [cache.latest for cache in caches if cache.latest is not None]

    await eventually(latest)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    (overview,) = await overviews.current()

    assert overview.error is None
    assert overview.snapshot is not None
    assert overview.snapshot.server.revision
    database.close()
    embedded_databases.drop(url)
