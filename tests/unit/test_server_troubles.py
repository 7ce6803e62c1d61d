"""Troubles of the database and the workers, by what the server and the heartbeats report."""

from typing import Any

import pytest

from skipmq.actions.skipmq import server_troubles
from skipmq.broker.trouble_kinds import KINDS
from skipmq.broker.workers import Worker
from skipmq.database.monitor import SERVING, STATES, TableLock

NOW = 1_800_000_000.0
BUSY = {"requests": 10.0, "p99": 0.01, "lag": 0.001, "memory": 60_000_000.0}


def worker(host: str = "one", seen: float = 1.0, **figures: float) -> Worker:
    return Worker(f"{host}-1", host, "1.0", 60.0, seen, BUSY | figures)


def number(name: str, value: int, label: str = "") -> dict[str, Any]:
    return {"Name": name, "Label": label, "Value": value}


def database(*numbers: dict[str, Any], state: str = "writable", **more: Any) -> dict[str, Any]:
    return {"State": state, "StateSeconds": 9, "Numbers": numbers, **more}


def summaries(found: list[dict[str, Any]]) -> dict[str, str]:
    return {each["Trouble"]: each["Summary"] for each in found}


OF_WORKERS = {
    "worker-silent": (worker(seen=31), "A worker of one has not sent a heartbeat for 31 seconds"),
    "requests-refused": (worker(refused=1), "Node one refuses requests beyond its limit"),
    "database-slow": (
        worker(cut=1),
        "Node one closes connections on which the database takes too long",
    ),
    "node-grows": (worker(memory=1.5 * 2**30), "Node one has 1,536 MiB of memory for each worker"),
    "clock-skew": (
        worker(clock_skew=-45.0),
        "The clock of node one differs from the database's by 45 seconds",
    ),
    "certificate": (
        worker(certificate_ends=NOW + 3 * 86_400),
        "The certificate of node one expires in 3 days",
    ),
    "archive-behind": (
        worker(unarchived_days=2),
        "2 days of the history are kept because no export has them",
    ),
    "requests-slow": (worker(p99=2.5), "One request in a hundred takes longer than 2 seconds"),
}
OF_NUMBERS = {
    "sessions": (
        (number("sessions", 91), number("most sessions", 100)),
        "The server has 91 sessions, nine tenths of its limit",
    ),
    "replication-lag": (
        (number("standby lag bytes", 128 * 2**20, "postgres2"),),
        "Postgres2 is 128 MiB behind the primary",
    ),
    "bloated": (
        (number("dead rows", 3_000_000, "message"), number("live rows", 1_000_000, "message")),
        "Message has 3,000,000 dead rows",
    ),
    "not-frozen": (
        (number("frozen age", 1_100_000_000),),
        "A table was not frozen for 1,100,000,000 transactions; PostgreSQL stops at 2.1 billion",
    ),
    "counts": (
        (number("counted age", 700),),
        "The counts of queues have not been updated for 11 minutes",
    ),
}
OTHERS = {"damaged", "standbys", "snapshot", "table-locked", "node-slow"}
OTHERS |= {f"database-{state.replace('_', '-')}" for state in STATES if state not in SERVING}


def test_every_kind_is_of_queues_or_found_here() -> None:
    of_queues = {name for name, kind in KINDS.items() if "{queue}" in kind.summary}

    assert {*KINDS} == of_queues | {*OF_WORKERS} | {*OF_NUMBERS} | OTHERS


@pytest.mark.parametrize("name", OF_WORKERS)
def test_heartbeat_shows_what_is_wrong_with_a_worker(name: str) -> None:
    ill, summary = OF_WORKERS[name]

    assert summaries(server_troubles.worker_troubles([ill, ill], NOW)) == {name: summary}
    assert server_troubles.worker_troubles([worker(), worker("two")], NOW) == []


def test_worker_that_is_slower_than_the_others_is_named() -> None:
    workers = [worker(), worker("two"), worker("three", lag=2.0)]

    found = summaries(server_troubles.worker_troubles(workers, NOW))

    assert found == {"node-slow": "Node three is slower than the others"}


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_statistics_show_what_is_wrong_with_the_server(name: str) -> None:
    numbers, summary = OF_NUMBERS[name]

    assert summaries(server_troubles.database_troubles(database(*numbers))) == {name: summary}
    half = [each | {"Value": each["Value"] // 4 or 1} for each in numbers[:1]]
    assert server_troubles.database_troubles(database(*half, *numbers[1:])) == []


def test_standbys_snapshot_and_lock_are_shown() -> None:
    replication = {"StandbyCount": 0, "Required": 1}
    server = {"OldestSnapshotSeconds": 121, "OldestSnapshotSession": "pg_dump, process 7"}
    described = database(Replication=replication, Server=server)
    lock = TableLock(12.0, "their migration holds ShareLock on skipmq.message")

    found = server_troubles.lock_troubles(lock) + server_troubles.database_troubles(described)

    assert [each["Trouble"] for each in found] == ["table-locked", "standbys", "snapshot"]
    assert found[-1]["Reason"] == "pg_dump, process 7"
    assert (found[0]["Seconds"], lock.session in found[0]["Summary"]) == (12, True)
    assert server_troubles.lock_troubles(None) == []


@pytest.mark.parametrize("state", [state for state in STATES if state not in SERVING])
def test_state_of_the_database_is_a_kind_with_its_reason(state: str) -> None:
    (found,) = server_troubles.database_troubles(database(state=state, Reason="the server's words"))

    assert found["Trouble"] == f"database-{state.replace('_', '-')}"
    assert (found["Seconds"], found["Reason"]) == (9, "the server's words")


def test_trouble_of_a_partition_names_it() -> None:
    partition = database(number("counted age", 700), Partition=1)

    (found,) = server_troubles.database_troubles(database(Partitions=[partition]))

    assert (found["Partition"], found["Summary"][:13]) == (1, "Partition 1: ")
