"""What a server says of its timeline. Source: PostgreSQL manual, 26.3.5 Timelines."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest

from skipmq.database import embedded
from support.clock import connect
from support.http import eventually
from support.postgres import Connection, Databases, as_reader
from support.servers import start
from support.sql import number
from support.standby import copy

ASK = "select timeline from skipmq_views.server"
CONTROL_FILE = "select min_recovery_end_timeline from pg_control_recovery()"


Server = tuple[embedded.Server, Connection]


@pytest.fixture
def servers(server_folder: Path) -> Iterator[list[Server]]:
    """Give a primary, a standby and a standby of that, with SkipMQ in them."""
    place = server_folder / "timeline"
    with ExitStack() as stack:
        server = stack.enter_context(start(place / "first", migrated=True))
        url = Databases(server).migrated()
        name = psycopg.conninfo.conninfo_to_dict(url)["dbname"]
        found = [(server, stack.enter_context(connect(url)))]
        for following in ("second", "third"):
            copy(server.url, place / following)
            server = stack.enter_context(start(place / following))
            found.append((server, stack.enter_context(connect(Databases(server).url(name)))))
        yield found


def test_timeline_is_that_which_a_server_writes_or_follows(servers: list[Server]) -> None:
    (_, first), (_, second), (server, third) = servers
    eventually(lambda: [number(owner, ASK) for _, owner in servers] == [1, 1, 1])

    second.execute("select pg_promote()")

    eventually(lambda: number(third, ASK) == 2)
    assert (number(first, ASK), number(second, ASK)) == (1, 2)
    with psycopg.connect(as_reader(Databases(server).url(third.info.dbname))) as reader:
        found = reader.execute("select standby, timeline from skipmq_views.server").fetchall()
        assert found == [(True, 2)]
    check_that_follows_nobody(third)
    check_whose_owner_sees_little(second, third)


def check_that_follows_nobody(standby: Connection) -> None:
    upstream = number(standby, "show primary_conninfo").replace("'", "''")
    standby.execute("alter system set primary_conninfo = ''")
    standby.execute("select pg_reload_conf()")
    eventually(lambda: number(standby, "select timeline is null from skipmq_views.server"))

    standby.execute(f"alter system set primary_conninfo = '{upstream}'")
    standby.execute("select pg_reload_conf()")
    eventually(lambda: number(standby, ASK) == 2)


def check_whose_owner_sees_little(primary: Connection, standby: Connection) -> None:
    primary.execute("create role plain")
    primary.execute("alter function skipmq.timeline() owner to plain")

    # That tells of the new timeline only after the next checkpoint.
    eventually(lambda: number(standby, ASK) == number(standby, CONTROL_FILE))
