"""What a server says of its synchronous standbys. Source: PostgreSQL manual, 20.6.2."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from support import servers
from support.clock import connect
from support.http import eventually
from support.postgres import Connection, Databases
from support.sql import number

LEVEL = "select row(names, required, listed, connected)::text from skipmq.replication()"


@pytest.fixture(scope="module")
def alone(server_folder: Path) -> Iterator[Connection]:
    """Give a server without standbys, whose settings may be changed."""
    with (
        servers.start(server_folder / "alone", ephemeral=True, migrated=True) as server,
        connect(Databases(server).migrated()) as connection,
    ):
        connection.execute("set synchronous_commit = local")
        yield connection


@pytest.mark.parametrize(
    ("names", "required", "listed"),
    [
        ("", 0, 0),
        ("one", 1, 1),
        ("one, two", 1, 2),
        ("2 (one, two, three)", 2, 3),
        ("FIRST 1 (one, two)", 1, 2),
        ("any 2 (one,two,three,four)", 2, 4),
        ('ANY 1 ("a-b", c)', 1, 2),
        ("ANY 1 (*)", 1, 1),
        ("*", 1, 1),
    ],
)
def test_forms_of_the_setting(alone: Connection, names: str, required: int, listed: int) -> None:
    alone.execute(f"alter system set synchronous_standby_names = '{names}'")
    alone.execute("select pg_reload_conf()")
    eventually(lambda: number(alone, "show synchronous_standby_names") == names)

    found = alone.execute(
        "select names, required, listed, connected from skipmq.replication()"
    ).fetchone()

    assert found == (names, required, listed, 0)


def test_owner_who_may_not_see_the_standbys_says_so(owner: Connection) -> None:
    owner.execute("create role plain")
    try:
        owner.execute("alter function skipmq.replication() owner to plain")

        assert number(owner, "select connected is null from skipmq.replication()")
    finally:
        owner.execute("alter function skipmq.replication() owner to current_user")
        owner.execute("drop role plain")
