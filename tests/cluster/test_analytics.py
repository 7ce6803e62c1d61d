"""Analytics on a cluster: they read standbys, and are right whatever happens to those meanwhile."""

import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest
from psycopg.errors import Diagnostic

from cluster.analysts import PATIENCE, Analyst, ask, on, reads, standbys, watch_readers
from cluster.history import History
from cluster.load import Load
from local_cluster import LocalCluster
from support.http import ROOT, eventually
from support.postgres import Connection
from support.programs import need
from support.sql import Queue, number
from support.trees import frozen, kill

pytestmark = pytest.mark.slow
FOLDER = ROOT / ".cache" / "analytics"
# Seconds that a reader may hold a snapshot of the primary here.
LIMIT = 6
# Seconds that a standby lets a reader wait, and that a failover may take without any.
MAY_WAIT, SLACK = 10, 12
CONTROL_FILE = "select min_recovery_end_timeline from pg_control_recovery()"
TAKEN_BACK = re.compile(r"removed [1-9]\d* rows that the server does not have")
# Messages a second: Java wants the cores too.
RATE = 60.0
SETTLED = "select count(*) from skipmq_views.history"


@pytest.fixture(scope="module")
def running() -> Iterator[LocalCluster]:
    need("etcd", "haproxy", "java")
    with LocalCluster(
        FOLDER / "quorum",
        nodes=2,
        reader=True,
        node_environment={"SKIPMQ_SNAPSHOT_LIMIT": str(LIMIT)},
    ) as found:
        watch_readers(found)
        yield found


@pytest.fixture
def cluster(running: LocalCluster) -> LocalCluster:
    running.wait_healthy(90)
    return running


@pytest.fixture
def analyst(cluster: LocalCluster, tmp_path: Path) -> Analyst:
    return Analyst(cluster, tmp_path)


@contextmanager
def loaded(cluster: LocalCluster, folder: Path, prefix: str) -> Iterator[Load]:
    """Send, receive and delete during the block, and have some of that settled at its beginning."""
    before = ask(cluster.owner_url, SETTLED)
    with (
        History(folder / f"{prefix}history.jsonl") as history,
        Load(cluster.endpoint, history, seed=1, prefix=prefix, rate=RATE) as load,
    ):
        eventually(lambda: ask(cluster.owner_url, SETTLED) > before + 100, 60)
        yield load


@contextmanager
def gone(cluster: LocalCluster, *names: str) -> Iterator[None]:
    """Have servers die, and stay away until the end of the block."""
    for name in names:
        cluster.supervise(name, on=False)
    found = [s for s in cluster.addresses()["postgres"] if s["name"] in names]
    # Patroni first: it would start PostgreSQL again.
    kill(*(server["patroni_pid"] for server in found))
    kill(*(server["postmaster_pid"] for server in found))
    try:
        yield
    finally:
        for name in names:
            cluster.supervise(name, on=True)
            cluster.start_part(name)


def test_export_reads_standbys_and_has_each_row_once_whatever_befalls_them(
    cluster: LocalCluster, analyst: Analyst, tmp_path: Path
) -> None:
    with loaded(cluster, tmp_path, "faults-") as load:
        leader = cluster.leader()
        first = analyst.export()
        assert (first.pop("reader") > 0, set(first.values())) == (True, {0})

        strike_while_it_is_read(analyst, lambda: kill(pid_of(cluster, "reader")))
        with gone(cluster, "reader"):
            second = analyst.export()
            assert cluster.leader() == leader
            assert (second.pop(leader), sum(second.values()) > 0) == (0, True)
            strike_while_it_is_read(analyst, cluster.switchover)
            kill(pid_of(cluster, cluster.leader()))
            # One that finds no primary says so, and ends.
            assert analyst.begin_export().wait(PATIENCE) in {0, 1}, analyst.log
        assert load.drain(90)
    cluster.wait_healthy(90)
    eventually(lambda: caught_up(cluster), 60)

    analyst.export()

    assert analyst.check_lake() > 1000


def strike_while_it_is_read(analyst: Analyst, strike: Callable[[], object]) -> None:
    """Start an export and strike when it has connected; it may fail then, and must end."""
    before = reads(analyst.cluster)
    export = analyst.begin_export()
    eventually(lambda: reads(analyst.cluster) != before, PATIENCE)
    strike()
    assert export.wait(PATIENCE) in {0, 1}, analyst.log


def pid_of(cluster: LocalCluster, name: str) -> int:
    """Return the process of a server's PostgreSQL."""
    (found,) = [s for s in cluster.addresses()["postgres"] if s["name"] == name]
    pid: int = found["postmaster_pid"]
    return pid


def caught_up(cluster: LocalCluster) -> bool:
    """Tell whether the standbys that are there have applied all that the primary has written."""
    behind = (
        "select coalesce(max(pg_current_wal_lsn() - replay_lsn), 0) from pg_stat_replication"
        " where application_name ~ '^(postgres|reader)'"
    )
    return bool(ask(on(cluster, cluster.owner_url, cluster.leader()), behind) == 0)


def test_reader_that_holds_a_snapshot_of_the_primary_is_ended_and_one_of_a_standby_is_not(
    cluster: LocalCluster,
) -> None:
    leader = cluster.leader()
    owner = on(cluster, cluster.owner_url, leader)
    roles = "select string_agg(distinct usename, ' ') from pg_stat_activity where {}"
    here = roles.format("application_name = 'notebook'")
    assert ask(owner, roles.format("application_name ~ '^skipmq [0-9]'")) == "skipmq_node"
    with ExitStack() as stack:
        on_primary, on_standby = (
            stack.enter_context(
                psycopg.connect(
                    on(cluster, cluster.analytics_url, name), application_name="notebook"
                )
            )
            for name in (leader, "reader")
        )
        begun = time.monotonic()
        for notebook in (on_primary, on_standby):
            notebook.execute("set transaction isolation level repeatable read")
            notebook.execute(SETTLED)
        assert ask(owner, here) == "skipmq_reader"

        eventually(lambda: ask(owner, here) is None, LIMIT + 20)
        took = time.monotonic() - begun
        eventually(lambda: time.monotonic() > begun + 2 * LIMIT + 5, 60)

        assert took > LIMIT - 1
        assert number(on_standby, SETTLED) >= 0
        with pytest.raises(psycopg.OperationalError):
            on_primary.execute("select 1")
    logs = [(cluster.folder / "logs" / f"{n.name}.log").read_text() for n in cluster.layout.nodes]
    said = [line for log in logs for line in log.splitlines() if "held a snapshot" in line]
    assert len([line for line in said if "notebook" in line]) == 1


def test_without_standbys_spark_reads_the_primary_and_an_export_waits_for_one(
    cluster: LocalCluster, analyst: Analyst, tmp_path: Path
) -> None:
    with loaded(cluster, tmp_path, "alone-"):
        pass
    leader = cluster.leader()
    waits = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' and usename = '{}'"
    with gone(cluster, *standbys(cluster)):
        seen = analyst.count()
        export = analyst.begin_export()
        owner = on(cluster, cluster.owner_url, leader)
        eventually(lambda: ask(owner, waits.format("skipmq_reader")) == 1, PATIENCE)
        assert export.poll() is None

    assert seen.pop(leader) > 0
    assert set(seen.values()) == {0}
    assert export.wait(PATIENCE) == 0, analyst.log
    assert analyst.check_lake() > 100


def test_long_read_on_the_replica_holds_up_nobody_and_is_not_cancelled(
    cluster: LocalCluster,
) -> None:
    leader = on(cluster, cluster.owner_url, cluster.leader())
    replica = on(cluster, cluster.owner_url, "reader")
    waiting = "select count(*) from skipmq_views.message where queue = 'long'"
    startup = "select wait_event from pg_stat_activity where backend_type = 'startup'"
    with (
        psycopg.connect(leader, autocommit=True) as owner,
        psycopg.connect(on(cluster, cluster.analytics_url, "reader")) as report,
    ):
        queue = Queue(owner, "long")
        queue.send(*map(str, range(100)))
        eventually(lambda: ask(replica, waiting) == 100)
        report.execute("set transaction isolation level repeatable read")
        assert number(report, waiting) == 100

        while received := queue.receive():
            queue.delete(*received)
        eventually(lambda: left_by_vacuum(owner) == 0)

        eventually(lambda: ask(replica, startup) == "RecoveryConflictSnapshot")
        held = "select count(*) from pg_stat_replication where backend_xmin is not null"
        assert number(owner, held) == 0
        assert number(report, waiting) == 100
        report.rollback()
        eventually(lambda: ask(replica, waiting) == 0)


def test_readers_of_standbys_delay_a_failover_by_no_more_than_they_may(
    cluster: LocalCluster,
) -> None:
    leader = cluster.leader()
    voters = [name for name in standbys(cluster) if name != "reader"]
    waiting = "select count(*) from skipmq_views.message where queue = 'wanted'"
    behind = "select count(*) from pg_stat_replication where replay_lsn < pg_current_wal_lsn()"
    with ExitStack() as stack:
        owner = stack.enter_context(
            psycopg.connect(on(cluster, cluster.owner_url, leader), autocommit=True)
        )
        queue = Queue(owner, "wanted")
        queue.send(*map(str, range(100)))
        for name in voters:
            url = on(cluster, cluster.analytics_url, name)
            eventually(lambda url=url: ask(url, waiting) == 100)
            notebook = stack.enter_context(closing(psycopg.connect(url)))
            notebook.execute("set transaction isolation level repeatable read")
            assert number(notebook, waiting) == 100
        while received := queue.receive():
            queue.delete(*received)
        eventually(lambda: left_by_vacuum(owner) == 0)
        eventually(lambda: number(owner, behind) >= len(voters))

        begun = time.monotonic()
        kill(pid_of(cluster, leader))
        eventually(lambda: can_be_written(cluster.owner_url), 60)

        assert time.monotonic() - begun < MAY_WAIT + SLACK


def can_be_written(url: str) -> bool:
    """Tell whether a primary answers and its commits are acknowledged."""
    with suppress(psycopg.OperationalError):
        ask(url, "select pg_logical_emit_message(true, 'test', '')")
        return True
    return False


def left_by_vacuum(owner: Connection) -> int:
    """Vacuum the messages; return how many dead rows somebody still may see."""
    told: list[str] = []

    def note(said: Diagnostic) -> None:
        told.append(said.message_primary or "")

    owner.add_notice_handler(note)
    owner.execute("vacuum (verbose) skipmq.message")
    owner.remove_notice_handler(note)
    (left,) = re.findall(r"(\d+) are dead but not yet removable", "".join(told))[:1]
    return int(left)


def test_rows_that_a_failover_undid_leave_the_lake(tmp_path: Path) -> None:
    need("etcd", "haproxy", "java")
    with LocalCluster(
        FOLDER / "asynchronous", nodes=1, reader=True, replication="asynchronous"
    ) as cluster:
        watch_readers(cluster)
        analyst = Analyst(cluster, tmp_path)
        be_patient(cluster)
        leader = cluster.leader()
        # The replica for analytics gets what no server does that may become the primary.
        behind = senders(on(cluster, cluster.owner_url, leader), "postgres%")
        with loaded(cluster, tmp_path, "undone-") as load, frozen(*behind):
            before = ask(cluster.owner_url, SETTLED)
            eventually(lambda: ask(cluster.owner_url, SETTLED) > before + 200, 60)
            ahead = analyst.export()
            with gone(cluster, leader, "reader"):
                follower = on(cluster, cluster.owner_url, follower_of_another(cluster, leader))
                stale = ask(follower, CONTROL_FILE)
                analyst.export()
                taken_back = TAKEN_BACK.findall(analyst.log)
                assert load.drain(90)
                eventually(lambda: caught_up(cluster), 60)
                analyst.export()
                rows = analyst.check_lake()
        cluster.wait_healthy(90)
        analyst.export()

        assert ahead["reader"] > 0
        # What the control file says is old: the timeline must come from elsewhere.
        assert (stale, len(taken_back)) == (1, 1)
        assert analyst.check_lake() == rows


def be_patient(cluster: LocalCluster) -> None:
    """Let standbys wait for a sender that stands still, and be promoted though they are behind."""
    times = {"wal_receiver_timeout": "5min", "wal_sender_timeout": "5min"}
    cluster.change_settings(
        {"maximum_lag_on_failover": 1 << 40, "postgresql": {"parameters": times}}
    )
    for server in cluster.addresses()["postgres"]:
        url = on(cluster, cluster.owner_url, server["name"])
        eventually(lambda url=url: ask(url, "show wal_receiver_timeout") == "5min")


def senders(primary: str, names: str) -> list[int]:
    """Return the processes that send to these standbys."""
    with psycopg.connect(primary) as connection:
        rows = connection.execute(
            "select pid from pg_stat_replication where application_name like %s", (names,)
        ).fetchall()
    assert len(rows) == 2
    return [row[0] for row in rows]


def follower_of_another(cluster: LocalCluster, former: str) -> str:
    """Wait for another primary and a standby that follows it; return that one's name."""

    def found() -> str:
        members = {m.name: m for m in cluster.members() if m.name not in (former, "reader")}
        if not any(member.is_primary for member in members.values()):
            return ""
        (follower,) = [name for name, member in members.items() if not member.is_primary]
        url = on(cluster, cluster.owner_url, follower)
        timeline = "select coalesce(timeline, 0) from skipmq_views.server"
        return follower if ask(url, timeline) == 2 else ""

    name: str = eventually(found, 90, "another primary with a standby")
    return name
