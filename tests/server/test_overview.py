"""The overview of the database that a node keeps."""

import asyncio

from skipmq.database import Database, Replication
from skipmq.store import Overview
from support.loop import eventually
from support.postgres import Databases, as_node


async def test_overview_is_read_without_a_caller(embedded_databases: Databases) -> None:
    url = embedded_databases.migrated()
    database = Database(as_node(url), size=1)
    overview = Overview(database, Replication(database))
    running = asyncio.get_running_loop().create_task(overview.run())

    snapshot = await eventually(lambda: overview.latest)

    assert snapshot.server.revision
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    database.close()
    embedded_databases.drop(url)
