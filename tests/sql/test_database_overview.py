"""What a server says of itself to an operator, with and without a standby and pg_monitor."""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg

from support import servers, standby
from support.clock import connect
from support.http import eventually
from support.postgres import Connection, Databases

QUERY = "select * from skipmq.database_overview()"


def overview(connection: Connection) -> dict[str, Any]:
    cursor = connection.cursor(row_factory=psycopg.rows.dict_row)
    return cursor.execute(QUERY).fetchone() or {}


def test_node_sees_where_it_is_and_since_when(node: Connection) -> None:
    found = overview(node)

    assert found["port"] == node.info.port
    assert found["version"] == node.execute("show server_version").fetchone()[0].split()[0]  # type: ignore[index]
    assert found["revision"].startswith("0001")
    assert found["started_at"] < found["now_at"]
    assert found["timeline"] >= 1
    assert (found["standby_count"], found["standbys"]) == (0, [])


def test_programs_are_known_by_their_sessions(node: Connection, database: str) -> None:
    name = "skipmq 77-0123abcd"
    with (
        psycopg.connect(database, application_name=name),
        psycopg.connect(database, application_name=name),
        psycopg.connect(database, application_name="psql"),
    ):
        found = overview(node)["sessions"]

    (own,) = (each for each in found if each["program"] == name)
    assert own["number"] == 2
    assert any(each["program"] == "psql" and each["role"] == "postgres" for each in found)


def test_snapshot_that_is_held_has_its_age(owner: Connection, node: Connection) -> None:
    with node.transaction():
        node.execute("set transaction isolation level repeatable read")
        node.execute("select count(*) from skipmq_views.queue")
        held = overview(owner)["oldest_snapshot"]

    assert held > 0


def test_standby_shows_with_its_lag_to_who_may_see_it(server_folder: Path) -> None:
    place = server_folder / "overview"
    with ExitStack() as stack:
        server = stack.enter_context(servers.start(place / "first", migrated=True))
        owner = stack.enter_context(connect(Databases(server).migrated()))
        standby.copy(server.url, place / "second", "follower")
        stack.enter_context(servers.start(place / "second"))

        def streams() -> dict[str, Any]:
            (found,) = overview(owner)["standbys"] or [{}]
            return found if found.get("state") == "streaming" else {}

        found = eventually(streams)
        assert (found["name"], found["sync"]) == ("follower", "async")
        assert found["bytes"] >= 0
        assert found["seconds"] >= 0

        owner.execute("create role plain login")
        owner.execute("grant usage, create on schema skipmq to plain")
        owner.execute("alter function skipmq.database_overview() owner to plain")
        owner.execute("grant execute on all functions in schema skipmq to plain")
        owner.execute("grant select on skipmq.alembic_version to plain")

        seen = overview(owner)
        assert (seen["owner"], seen["may_see"]) == ("plain", False)
        assert (seen["standby_count"], seen["standbys"]) == (1, [])
