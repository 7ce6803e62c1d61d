"""A cluster of which parts are killed and frozen: under load, the quick form of `make faults`.

Its messages are sent and received through the balancer. What is long or needs root is left to the
long form, as are bounds of time that a busy machine would break.
"""

import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from cluster.content import note
from cluster.corruption import corrupted
from cluster.faults import FAULTS
from cluster.history import History
from cluster.injector import Injector
from cluster.load import Load
from cluster.run import MOST, Outcome, judge, run
from local_cluster import ClusterError, LocalCluster
from support.http import ROOT, eventually
from support.programs import need
from support.trees import frozen, kill, one, trees

FOLDER = ROOT / ".cache" / "faults"
IN_GATE = [name for name, fault in FAULTS.items() if fault.in_gate]
FIXED_SEED = 1
RANDOM_SEED = random.SystemRandom().randrange(2, 10**6)
# Messages a second: an eighth of the load of the long form, and half of it.
RATE, CORRUPTED_RATE = 15.0, 60.0
# A fault may take so many times as long as it should: the machine may have much else to do.
SLACK = 12.0
# What is corrupted, and how often at least for all of it to be detected.
DEEDS, ENOUGH = ("opened", "lost", "twins", "divided"), 20
# Seconds until nothing is left, on such a machine.
DRAIN = 120


@pytest.fixture(scope="module")
def started(server_folder: Path) -> Iterator[LocalCluster]:
    need("etcd", "haproxy")
    with LocalCluster(FOLDER / "gate", nodes=2, data_in=server_folder) as found:
        yield found


@pytest.fixture
def cluster(started: LocalCluster) -> LocalCluster:
    """Give the cluster, healthy again after what the test before did to it."""
    started.wait_healthy(120)
    return started


@pytest.mark.parametrize(
    ("seed", "number"),
    [
        pytest.param(FIXED_SEED, len(IN_GATE), id="fixed"),
        pytest.param(RANDOM_SEED, 3, id="random", marks=pytest.mark.slow),
    ],
)
def test_crashes_break_no_promise(cluster: LocalCluster, seed: int, number: int) -> None:
    print(f"seed {seed}")  # noqa: T201 - for who wants to repeat it.

    def faults(injector: Injector) -> Iterator[str]:
        return islice(injector.order(IN_GATE), number)

    freed, before = keys_freed(cluster), timeline(cluster)
    file = FOLDER / f"gate-{seed}.jsonl"
    outcome = run(cluster, file, faults, seed=seed, prefix=f"{seed}-", rate=RATE, slack=SLACK)

    assert outcome.good, told(outcome, file)
    assert len(outcome.outages) == number
    assert outcome.counts["acknowledged messages"] > 250
    assert outcome.counts["worked by consumers"] > 100
    assert outcome.counts["consumers killed or stopped"] > 1
    # The server that crashed gave up its key, so that a standby did not wait for the lease.
    assert keys_freed(cluster) > freed
    assert timeline(cluster) > before


def keys_freed(cluster: LocalCluster) -> int:
    names = [server.name for server in cluster.layout.servers]
    return sum(times_said(cluster, name, "the key is free") for name in names)


def timeline(cluster: LocalCluster) -> int:
    return max(member.timeline for member in cluster.members())


def test_corruption_of_rows_is_detected(cluster: LocalCluster, tmp_path: Path) -> None:
    with History(tmp_path / "history.jsonl") as history:
        load = Load(
            cluster.endpoint, history, seed=FIXED_SEED, prefix="corrupted-", rate=CORRUPTED_RATE
        )
        with load:
            with corrupted(cluster.owner_url) as done:
                eventually(lambda: min(done[what] for what in DEEDS) >= ENOUGH, 60)
            load.drain(DRAIN)
        note(history, cluster.owner_url, cluster.addresses()["postgres"])

    broken = {rule for rule, findings in judge(history.ops).findings.items() if findings}

    # By chance a message is deleted by one consumer after another has received it again, or is
    # received while it is in flight, which may exceed a limit.
    by_chance = {"no deleted message back", "receive counts", "limits in flight"}
    assert broken - by_chance == {
        "no acknowledged send lost",
        "nothing invented",
        "visibility exclusive",
        "order within a group",
        "published to all or none",
    }


def test_primary_that_does_not_answer_at_once_is_found(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    with ThreadPoolExecutor() as pool:
        with frozen(server(cluster, leader)["patroni_pid"]):
            asked = pool.submit(cluster.leader)
            eventually(lambda: not any(member.is_primary for member in cluster.members()))
        assert asked.result() == leader


def test_key_stays_while_postgresql_runs_without_patroni(cluster: LocalCluster) -> None:
    leader = cluster.leader()
    before, said = server(cluster, leader), times_said(cluster, leader, "the key stays")
    one(before["patroni_pid"]).kill()
    eventually(lambda: times_said(cluster, leader, "the key stays") > said, 30)
    cluster.wait_healthy(60)

    assert cluster.leader() == leader
    assert server(cluster, leader)["postmaster_pid"] == before["postmaster_pid"]


def server(cluster: LocalCluster, name: str) -> dict[str, Any]:
    return next(s for s in cluster.addresses()["postgres"] if s["name"] == name)


def times_said(cluster: LocalCluster, part: str, text: str) -> int:
    """Return how often a part of the cluster has said something: other tests had it say so too."""
    return (cluster.folder / "logs" / f"{part}.log").read_text().count(text)


@pytest.mark.slow
def test_losses_of_asynchronous_replication_are_found_out(tmp_path: Path) -> None:
    need("etcd", "haproxy")
    with (
        LocalCluster(FOLDER / "asynchronous", replication="asynchronous") as cluster,
        History(tmp_path / "history.jsonl") as history,
    ):
        # Else a standby that is known to be behind is not promoted.
        cluster.change_settings({"maximum_lag_on_failover": 1 << 40})
        with Load(cluster.endpoint, history, seed=FIXED_SEED) as load:
            time.sleep(2)
            name = cluster.leader()
            struck = server(cluster, name)
            senders = [
                process.pid
                for process in trees([struck["postmaster_pid"]])
                if "walsender" in " ".join(process.cmdline())
            ]
            with frozen(*senders):
                time.sleep(2.5)
                cluster.supervise(name, on=False)
                kill(struck["patroni_pid"], struck["postmaster_pid"])
            eventually(lambda: leader(cluster) not in ("", name), 60, "another primary")
            load.drain(90)

    findings = judge(history.ops).findings
    assert len(senders) == 2
    assert len(findings["no acknowledged send lost"]) > 50


def leader(cluster: LocalCluster) -> str:
    """Return the name of the primary, or nothing while there is none."""
    try:
        return cluster.leader()
    except ClusterError:
        return ""


def told(outcome: Outcome, history: Path) -> str:
    """Say what was broken."""
    lines = [f"seed {outcome.seed}, history in {history}", outcome.trouble]
    for rule, findings in outcome.findings.items():
        lines += [f"{rule}: {finding}" for finding in findings[:MOST]]
    return "\n".join(filter(None, lines))
