"""The page of the database where queues are spread over partitions, of which one is away."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from support import servers
from support.browser import Browser
from support.http import NodeProcess, eventually
from support.partitions import Partitions
from support.postgres import Databases, as_node


@pytest.fixture
def away(
    embedded_databases: Databases, router_server: Databases, server_folder: Path
) -> Iterator[tuple[NodeProcess, Partitions, Databases]]:
    """Give a node behind a router, whose first partition has a server of its own."""
    with ExitStack() as stack:
        server = servers.start(server_folder / "console-first", ephemeral=True, migrated=True)
        stack.callback(server.release)
        first = Databases(server)
        made = Partitions([first, embedded_databases], router_server)
        node = stack.enter_context(NodeProcess(database_url=as_node(made.router), workers=1))
        yield node.ready(), made, first


def rows(browser: Browser) -> list[dict[str, str]]:
    """Return the cells of each row by their label."""
    script = (
        "return [...document.querySelectorAll('.partitions tbody tr')].map("
        "row => Object.fromEntries([...row.querySelectorAll('td')].map("
        "cell => [cell.dataset.label, cell.innerText])))"
    )
    return list(browser.run(script))


def test_each_partition_is_shown_also_while_another_is_away(
    away: tuple[NodeProcess, Partitions, Databases], browser: Browser, screenshots: Path
) -> None:
    node, made, first = away
    page = f"{node.url}/console/database"
    with psycopg.connect(made.urls[1]) as owner:
        most = owner.execute("show max_connections").fetchone()
    assert most is not None

    browser.look("desktop", "light")
    with browser.hastened():
        browser.open(page)
    browser.wait("Partition 1")
    browser.inspect(screenshots, "database-partitions")
    eventually(lambda: [row["State"] for row in rows(browser)] == ["Writable", "Writable"])
    assert all(row["Size"].endswith("B") for row in rows(browser))
    assert rows(browser)[1]["Sessions"].endswith(f"of {int(most[0]) - 3}")
    assert browser.text("#partition h2") == "Partition 0"

    first.server.release()
    eventually(lambda: [row["State"] for row in rows(browser)] == ["Unreachable", "Writable"])
    browser.wait("The data below is")
    browser.click("#partition-1")
    eventually(lambda: browser.text("#partition h2") == "Partition 1")
    assert browser.text("#partition .status") == "Writable"
    assert not browser.count("#stale")
    browser.open(page)
    browser.wait("Unreachable")
    browser.inspect(screenshots, "database-partition-away")
    browser.open(f"{node.url}/console/")
    browser.wait("Partition 0: The database is unreachable")
    assert browser.sees("1 of 2 partitions available")
    assert browser.complaints() == []
