"""Partitions behind a router."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any, Self

import psutil
import psycopg
import pytest
from click.testing import CliRunner, Result
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.sql import SQL, Identifier, Literal

from skipmq.cli import cli
from skipmq.database.partitions import chosen
from skipmq.database.router.partition_map import partition_urls
from support.postgres import DEBIAN, Databases

_number = count(1)
# What copies are made of, until their servers stop.
_templates: dict[tuple[Databases, Databases, int], Any] = {}


def plproxy_server() -> Path:
    """Return the programs of a PostgreSQL that has PL/Proxy; skip the test where none has."""
    found = sorted(DEBIAN.glob("*/lib/plproxy.so"))
    if not found:
        reason = "install the package postgresql-15-plproxy"
        if os.environ.get("CI") == "true":  # noqa: TID251 - a switch of the tests.
            pytest.fail(reason)
        pytest.skip(reason)
    return found[-1].parent.parent / "bin"


def run(*arguments: str) -> Result:
    """Run `skipmq partitions …`."""
    return CliRunner().invoke(cli, ["partitions", *arguments])


def in_second(stem: str, suffix: str = "") -> str:
    """Return a name that chooses the second of two partitions."""
    names = (f"{stem}-{number}{suffix}" for number in count())
    return next(n for n in names if chosen("000000000000", "us-east-1", n, 2) == 1)


class Partitions:
    """Databases that `skipmq partitions init` has made partitions, and their router."""

    def __init__(
        self,
        servers: Sequence[Databases],
        router_server: Databases,
        template: Self | None = None,
    ) -> None:
        self._servers, self._router_server = servers, router_server
        self._template = template
        if template is None:
            self.urls = [server.migrated() for server in servers]
            self.router = router_server.empty()
            assert self.init().exit_code == 0
        else:
            pairs = zip(servers, template.urls, strict=True)
            self.urls = [server.copy(url) for server, url in pairs]
            self.router = router_server.copy(template.router)
            self._readdress(self.router)

    @classmethod
    def copied(cls, server: Databases, router_server: Databases, partitions: int) -> Self:
        """Return copies of partitions on a server, which `skipmq partitions init` made once.

        All have the same map. The command takes many times as long as the copies.
        """
        key = (server, router_server, partitions)
        servers = [server] * partitions
        if key not in _templates:
            _templates[key] = cls(servers, router_server)
        return cls(servers, router_server, _templates[key])

    def _readdress(self, router: str) -> None:
        """Have a router call these partitions in place of those that they are copies of."""
        options = [
            SQL("set {} {}").format(
                Identifier(f"p{number}"),
                Literal(make_conninfo(address, dbname=conninfo_to_dict(url)["dbname"])),
            )
            for number, (url, address) in enumerate(
                zip(self.urls, partition_urls(router), strict=True)
            )
        ]
        change = SQL("alter server skipmq options ({})").format(SQL(", ").join(options))
        with psycopg.connect(router, autocommit=True) as connection:
            connection.execute(change)

    def init(self, *urls: str) -> Result:
        """Run `skipmq partitions init` for these partitions, or again for its own."""
        given = [word for url in urls or self.urls for word in ("--partition", url)]
        return run("init", "--router", self.router, *given)

    def another_router(self, server: Databases) -> str:
        """Make another router of the same partitions; return its owner's address."""
        if self._template:
            router = server.copy(self._template.router)
            self._readdress(router)
            return router
        router = server.empty()
        given = [word for url in self.urls for word in ("--partition", url)]
        assert run("init", "--router", router, *given).exit_code == 0
        return router

    def add(self, server: Databases, *, empty: bool = False) -> Result:
        """Add a partition, a database with the schema or an empty one, with the command."""
        url = server.empty() if empty else server.migrated()
        self._servers = [*self._servers, server]
        self.urls.append(url)
        return run("add", "--router", self.router, "--partition", url)

    def name_at(self, partition: int, suffix: str = "", prefix: str = "queue") -> str:
        """Return a new name of a queue whose home is a partition."""
        with psycopg.connect(self.router, autocommit=True) as connection:
            while True:
                name = f"{prefix}-{next(_number)}{suffix}"
                row = connection.execute(
                    "select skipmq_router.home('000000000000', 'us-east-1', %s)", (name,)
                ).fetchone()
                if row == (partition,):
                    return name

    def drop(self) -> None:
        for server, url in zip(self._servers, self.urls, strict=True):
            server.drop(url)
        self._router_server.drop(self.router)


@contextmanager
def frozen(databases: Databases) -> Iterator[None]:
    """Suspend all processes of a server, which accepts connections and answers nothing."""
    file = databases.server.data_dir / "postgresql" / "postmaster.pid"
    server = psutil.Process(int(file.read_text().split()[0]))
    suspended = [server, *server.children(recursive=True)]
    try:
        for each in suspended:
            each.suspend()
        yield
    finally:
        for each in suspended:
            with suppress(psutil.NoSuchProcess):
                each.resume()


def is_up(databases: Databases) -> bool:
    try:
        psycopg.connect(databases.server.url, connect_timeout=2).close()
    except psycopg.OperationalError:
        return False
    return True
