"""What a node shows to Prometheus."""

import contextlib
import math
import os
import signal
from pathlib import Path

import psycopg
import pytest

from support.http import NodeProcess, eventually
from support.postgres import Connection, Databases, as_node, as_reader
from support.sql import number

OLDEST = "skipmq_oldest_snapshot_seconds"
ENDED = "skipmq_snapshots_ended_total"
UNARCHIVED = "skipmq_history_days_unarchived"


@pytest.fixture(scope="module")
def databases(embedded_databases: Databases) -> Databases:
    """Use one PostgreSQL: a node's metrics are the same on all."""
    return embedded_databases


def test_metrics_are_of_all_workers_and_outlive_one(database: str) -> None:
    with NodeProcess(database_url=as_node(database), workers=2) as node:
        node.ready()
        assert node.metric("skipmq_database_outages_total") == 0
        workers = node.workers()
        eventually(lambda: node.metric("skipmq_database_available") == 1)
        os.kill(workers[0].pid, signal.SIGKILL)

        def answers() -> bool:
            # Until its place is taken, the dead worker's share of the connections is reset.
            with contextlib.suppress(OSError):
                return node.metric("skipmq_database_available") == 1
            return False

        eventually(answers)


def test_numbers_of_a_killed_node_are_removed_and_of_no_other(
    database: str, tmp_path: Path
) -> None:
    def node() -> NodeProcess:
        variables = {"TMPDIR": str(tmp_path)}
        return NodeProcess(database_url=as_node(database), workers=2, variables=variables)

    with node() as killed:
        killed.ready().kill()
    (left,) = tmp_path.iterdir()
    with node() as running:
        running.ready()
        (kept,) = tmp_path.iterdir()
        with node() as beside:
            beside.ready()
            assert kept in tmp_path.iterdir()
            assert running.metric("skipmq_refused_total") == 0

    assert left != kept
    assert list(tmp_path.iterdir()) == []


def test_file_that_a_process_made_and_has_not_filled_is_left_out(
    database: str, tmp_path: Path
) -> None:
    variables = {"TMPDIR": str(tmp_path)}
    with NodeProcess(database_url=as_node(database), workers=2, variables=variables) as node:
        node.ready()
        (folder,) = tmp_path.iterdir()
        (folder / ".1").touch()

        assert node.metric("skipmq_refused_total") == 0


def test_reader_that_was_ended_and_a_snapshot_that_is_still_held_show(database: str) -> None:
    look = "select count(*) from skipmq_views.queue"
    with psycopg.connect(database) as holder, psycopg.connect(as_reader(database)) as reader:
        for each in (holder, reader):
            each.execute("set transaction isolation level repeatable read")
            each.execute(look)

        with NodeProcess(database_url=as_node(database), workers=2, snapshot_limit=0.001) as node:
            eventually(lambda: node.ready().metric(ENDED) == 1)
            oldest = eventually(lambda: node.metric(OLDEST) >= 1 and node.metric(OLDEST))
            age = "select extract(epoch from clock_timestamp() - now())::float8"
            assert oldest <= number(holder, age)
            holder.rollback()
            eventually(lambda: node.metric(OLDEST) < oldest)

        with pytest.raises(psycopg.OperationalError):
            reader.execute(look)


def test_days_that_no_export_has_show_where_there_is_an_archive(
    database: str, owner: Connection
) -> None:
    owner.execute("create table skipmq.history_20200101 (like skipmq.history including all)")
    owner.execute(
        "alter table skipmq.history attach partition skipmq.history_20200101"
        " for values from ('2020-01-01 00:00+00') to ('2020-01-02 00:00+00')"
    )
    with NodeProcess(database_url=as_node(database), workers=1, archive="lake") as node:
        eventually(lambda: node.ready().metric(UNARCHIVED) == 1)
    with NodeProcess(database_url=as_node(database), workers=1) as node:
        assert f"\n{UNARCHIVED} " not in node.ready().metrics()


def test_what_nobody_knows_while_the_database_is_away_is_no_number(
    database: str, embedded_databases: Databases
) -> None:
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with (
        NodeProcess(database_url=as_node(database), workers=1) as node,
        psycopg.connect(embedded_databases.server.url, autocommit=True) as admin,
    ):
        eventually(lambda: node.ready().metric(OLDEST) >= 0)

        admin.execute(f"alter database {name} allow_connections false")
        admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where datname = %s", (name,)
        )
        eventually(lambda: math.isnan(node.metric(OLDEST)))
        admin.execute(f"alter database {name} allow_connections true")

        eventually(lambda: node.metric(OLDEST) >= 0)
