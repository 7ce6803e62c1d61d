"""Real PostgreSQL servers and databases for all tests."""

import asyncio
import gc
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache, wraps
from inspect import iscoroutinefunction
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from support import servers
from support.http import eventually
from support.partitions import plproxy_server
from support.postgres import DEBIAN, Connection, Databases, as_node, connected, debian_servers

if TYPE_CHECKING:
    from support.browser import Browser

# A machine that has much else to do stands still now and then, and no example is to blame for that.
# Each run has other examples.
settings.register_profile(
    "patient", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("patient")

# Folders whose tests share what is dear, or would take each other's processors: a worker has them.
TOGETHER = {"analytics": "analytics", "cluster": "clusters", "deploy": "clusters"}
# Files of such a folder that need none of what is dear there: each goes to any worker.
APART = {
    *("test_marks.py", "test_numbers.py", "test_page.py", "test_page_in_browser.py"),
    "test_socket_proxy.py",
}
# What takes longest begins first, so that no worker is left alone with it.
FIRST = (
    *("analytics", "cluster", "deploy", "docs", "django", "testing", "clients", "client"),
    *(
        "server",
        "cli",
        "http",
        "migration",
        "console",
        "concurrency",
        "config",
        "partitions",
        "alerts",
    ),
)
# What a browser is made of, and the packages that have it.
BROWSER = {"chromium-headless-shell": "chromium-headless-shell", "chromedriver": "chromium-driver"}


class _ByFile(LoadScopeScheduling):
    """Give each file whole to one worker, for the fixtures of its module.

    Not `--dist loadgroup`, which does nothing from pytest 9.2 on (pytest-xdist issue 1386).
    """

    def _split_scope(self, nodeid: str) -> str:
        file = PurePosixPath(nodeid.partition("::")[0])
        return str(file) if file.name in APART else TOGETHER.get(file.parent.name, str(file))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByFile:
    return _ByFile(config, log)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Leave one PostgreSQL of several to a test; on the others it is slow.

    Which one is by its name, so that each server gets its share of every file.
    """
    taken, servers = server_of(item), ["embedded", *debian_servers()]
    if taken and not item.get_closest_marker("every_server"):
        chosen = servers[crc32(item.nodeid.partition("[")[0].encode()) % len(servers)]
        if taken != chosen:
            item.add_marker(pytest.mark.slow)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Order the tests, which are shuffled, by folders."""
    folders = {name: place for place, name in enumerate(FIRST)}
    items.sort(key=lambda item: folders.get(item.path.parent.name, len(FIRST)))


def server_of(item: pytest.Item) -> str | None:
    """Return the server that this run of a test has, if it has one for each."""
    callspec = getattr(item, "callspec", None)
    taken = callspec.params if callspec else {}
    server: str | None = taken.get("databases") or taken.get("_own_server")
    return server


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> None:
    """Run a test that is a coroutine on an event loop of its own."""
    test = pyfuncitem.obj
    if iscoroutinefunction(test):

        @wraps(test)
        def run(**fixtures: Any) -> None:
            asyncio.run(test(**fixtures))

        pyfuncitem.obj = run


def pytest_configure(config: pytest.Config) -> None:
    """Take Ctrl-C, so that the programs do that tests start and interrupt.

    A shell starts what it runs in the background deaf to it, as does all that is started by that.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    # To collect the tests makes little garbage, and to look for it takes a third of that time.
    gc.disable()
    # Modules find what they made when the interpreter ends.
    config.add_cleanup(gc.unfreeze)
    if not hasattr(config, "workerinput"):
        servers.keep_clusters()
        config.add_cleanup(servers.remove_clusters)


def pytest_collection_finish() -> None:
    """Look for garbage among what the tests make only: what was collected stays."""
    gc.enable()
    gc.freeze()


@contextmanager
def _public(place: Path | None = None) -> Iterator[Path]:
    """Make a folder that every account can reach: a server may run under one of its own."""
    folder = Path(tempfile.mkdtemp(prefix="skipmq-tests-", dir=place))
    folder.chmod(0o755)
    yield folder

    def is_removed() -> bool:
        shutil.rmtree(folder, ignore_errors=True)
        return not folder.exists()

    eventually(is_removed, why="servers have removed their data")


@pytest.fixture(scope="session")
def public_folder() -> Iterator[Path]:
    """Give a folder that every account can reach."""
    with _public() as folder:
        yield folder


@pytest.fixture(scope="session")
def server_folder() -> Iterator[Path]:
    """Give a folder for the data of servers that every account can reach: in memory, if it can be.

    A database is 700 files. To create and to drop them takes a file system in memory a sixth of the
    processor's time that one on a disk takes.
    """
    with _public(servers.memory()) as folder:
        yield folder


@pytest.fixture(scope="session")
def embedded_databases(server_folder: Path) -> Iterator[Databases]:
    server = servers.start(server_folder / "embedded", ephemeral=True, migrated=True)
    with server, Databases(server).connected() as found:
        yield found


@pytest.fixture(scope="session")
def router_server(server_folder: Path) -> Iterator[Databases]:
    """Give a server for routers of partitions, which has PL/Proxy."""
    server = servers.start(server_folder / "router", ephemeral=True, bin_dir=plproxy_server())
    with server, Databases(server).connected() as found:
        yield found


@pytest.fixture(scope="session")
def debian_databases(server_folder: Path) -> Iterator[Callable[[str], Databases]]:
    """Give what starts Debian's server of a version, once, for all tests that follow."""
    with ExitStack() as stack:

        @cache
        def started(version: str) -> Databases:
            folder = server_folder / f"debian-{version}"
            binaries = DEBIAN / version / "bin"
            server = servers.start(folder, ephemeral=True, bin_dir=binaries, migrated=True)
            return stack.enter_context(Databases(stack.enter_context(server)).connected())

        yield started


@pytest.fixture(scope="session", params=["embedded", *debian_servers()])
def databases(
    request: pytest.FixtureRequest,
    embedded_databases: Databases,
    debian_databases: Callable[[str], Databases],
) -> Databases:
    """Give each PostgreSQL there is in turn."""
    return embedded_databases if request.param == "embedded" else debian_databases(request.param)


@pytest.fixture(scope="module", params=["embedded", *debian_servers()])
def _own_server(request: pytest.FixtureRequest, server_folder: Path) -> Iterator[Databases]:
    """Give each PostgreSQL there is in turn, as a server for one file of tests."""
    folder = server_folder / f"{request.module.__name__}-{request.param}"
    binaries = None if request.param == "embedded" else DEBIAN / request.param / "bin"
    with servers.start(folder, ephemeral=True, bin_dir=binaries) as server:
        yield Databases(server)


@pytest.fixture
def bare_server(_own_server: Databases) -> Iterator[Databases]:
    """Give a server without any role of SkipMQ's."""
    yield _own_server
    _own_server.clear()


@pytest.fixture
def database(databases: Databases) -> Iterator[str]:
    """Give the owner's URL of a database that is as new."""
    with databases.lend() as url:
        yield url


@pytest.fixture
def new_database(databases: Databases) -> Iterator[str]:
    """Give the owner's URL of a database that no test had: rows are on pages as they were sent."""
    url = databases.migrated()
    yield url
    databases.drop(url)


@pytest.fixture
def owner(database: str) -> Iterator[Connection]:
    """Give a connection of the schema's owner, who may move the clock."""
    with connected(database) as connection:
        yield connection


@pytest.fixture
def node(database: str) -> Iterator[Connection]:
    """Give a connection with a node's rights."""
    with connected(as_node(database)) as connection:
        yield connection


@pytest.fixture(scope="session")
def chromium(request: pytest.FixtureRequest) -> Iterator["Browser"]:
    """Give Debian's Chromium, which takes pictures where a folder for them was named."""
    missing = [package for program, package in BROWSER.items() if not shutil.which(program)]
    if missing:
        reason = f"install {' '.join(missing)}"
        if os.environ.get("CI") == "true":  # noqa: TID251 - a switch of the tests.
            pytest.fail(reason)
        pytest.skip(reason)
    from support.browser import Browser  # noqa: PLC0415 - Selenium, when a test asks for it.

    with Browser(takes_pictures=bool(request.config.getoption("screenshots"))) as found:
        yield found


@pytest.fixture
def browser(chromium: "Browser") -> Iterator["Browser"]:
    """Give the browser, which leaves its page after the test."""
    yield chromium
    chromium.leave()


@pytest.fixture(scope="session")
def screenshots(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder that pictures of the pages are written to."""
    named = request.config.getoption("screenshots")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def pytest_addoption(parser: pytest.Parser) -> None:
    about = "what serves the tests in tests/http: skipmq serve, or Flask under gunicorn"
    parser.addoption("--door", choices=["http", "wsgi"], default="http", help=about)
    about = "take pictures of pages, and where they go"
    parser.addoption("--screenshots", metavar="FOLDER", help=about)
    about = "how long the slow test in tests/http/test_wire_fuzz.py sends requests"
    parser.addoption("--fuzz-seconds", type=float, default=120, help=about)


def pytest_report_header() -> str:
    missing = "" if debian_servers() else " (none of Debian's: install the package postgresql)"
    return f"PostgreSQL: embedded {' '.join(debian_servers())}{missing}"


def pytest_sessionstart() -> None:
    if os.environ.get("CI") == "true" and not debian_servers():  # noqa: TID251 - a switch of the tests.
        pytest.exit("CI needs Debian's PostgreSQL: install the package postgresql", returncode=3)
