"""Pages of a database that a disk has damaged."""

from pathlib import Path

import psycopg

from support.postgres import Connection, Databases
from support.sql import number

PAGE = 8192


def pages_of(owner: Connection, condition: str) -> list[int]:
    """Return the pages of the table of messages that have those of a condition."""
    found = owner.execute(
        "select distinct (ctid::text::point)[0]::bigint from skipmq.message"
        f" where queue_id > 0 and {condition} order by 1".encode()
    )
    return [page for (page,) in found]


def damaged_copy(databases: Databases, url: str, relation: str, *pages: int) -> str:
    """Return the URL of a copy of a database in which pages of a relation are overwritten.

    No session has read them there, so that the server reads them from the disk.
    """
    with psycopg.connect(url, autocommit=True) as owner:
        assert number(owner, "show data_checksums") == "on"
        folder = Path(number(owner, "show data_directory"))
        file = number(owner, "select pg_relation_filenode(%s::regclass)", relation)
    copied = databases.copy(url)
    name = psycopg.conninfo.conninfo_to_dict(copied)["dbname"]
    with psycopg.connect(databases.server.url, autocommit=True) as admin:
        place = number(admin, "select oid from pg_database where datname = %s", name)
    with (folder / "base" / str(place) / str(file)).open("r+b") as opened:
        for page in pages:
            opened.seek(page * PAGE + PAGE // 2)
            opened.write(b"\xde\xad" * 100)
    return copied
