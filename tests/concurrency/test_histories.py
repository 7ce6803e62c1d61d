"""Histories of clients at two nodes break no rule; where a fault is planted they do.

A seed decides who takes part and what they choose, and not when: runs of one seed are alike, not
the same. What a run wrote down can be judged again: `broken([*history.read(path)])`.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from cluster.history import Op
from concurrency.flights import watch
from concurrency.planted import DRAWN_FAULTS, FAULTS, MOST
from concurrency.rules import broken
from concurrency.workload import recorded, two_nodes
from support import servers
from support.http import ROOT
from support.nodes import Nodes
from support.postgres import Databases

SLOW_DRAWN = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(400, 460)]
SLOW_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, *range(200, 260))]
SLOW_KILLS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (100, *range(300, 315))]
# A fault that lets messages be stuck is found without a long wait for them.
IMPATIENT = 15


@pytest.fixture(scope="module")
def database(embedded_databases: Databases) -> str:
    url = embedded_databases.migrated()
    watch(url)
    return url


@pytest.fixture(scope="module")
def nodes(database: str) -> Iterator[Nodes]:
    with two_nodes(database) as found:
        yield found


def check(ops: list[Op], seed: int, path: Path) -> None:
    done = Counter(op.op for op in ops if op.type == "ok")

    assert broken(ops) == {}, f"seed {seed}; its history: {path}"
    assert all(done[kind] > 0 for kind in ("send", "receive", "delete", "hide")), done


@pytest.mark.parametrize("seed", [0, *SLOW_SEEDS])
def test_history_breaks_no_rule(database: str, nodes: Nodes, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "history.jsonl"

    check(recorded(database, nodes, seed, path), seed, path)


@pytest.mark.parametrize("seed", [3, *SLOW_DRAWN])
def test_history_with_topics_and_limits_breaks_no_rule(
    database: str, nodes: Nodes, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "history.jsonl"
    kills = seed % 4 == 3
    ops = recorded(database, nodes, seed, path, drawn=True, kills=kills)

    check(ops, seed, path)
    assert [op.type for op in ops if op.op == "kill"] == ["ok"] * kills
    assert all(any(op.op == kind for op in ops) for kind in ("publish", "flight"))


@pytest.fixture(scope="module")
def clocked(server_folder: Path) -> Iterator[str]:
    """Give a database of a server of its own, whose clock nodes go by when it is moved."""
    with servers.start(server_folder / "clocked", ephemeral=True, migrated=True) as server:
        url = Databases(server).migrated()
        watch(url)
        with psycopg.connect(url, autocommit=True) as owner:
            owner.execute("grant set on parameter skipmq.clock_offset to skipmq_node")
        yield url


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(500, 520))
def test_history_with_a_moved_clock_breaks_no_rule(clocked: str, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "history.jsonl"
    with two_nodes(clocked) as nodes:
        ops = recorded(clocked, nodes, seed, path, drawn=seed % 4 != 0, moves=True)

    check(ops, seed, path)
    assert any(op.op == "clock" for op in ops)


@pytest.mark.parametrize("seed", SLOW_KILLS)
def test_history_with_a_killed_node_breaks_no_rule(
    database: str, nodes: Nodes, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "history.jsonl"
    ops = recorded(database, nodes, seed, path, kills=True)

    check(ops, seed, path)
    assert [op.type for op in ops if op.op == "kill"] == ["ok"]


def test_faults_can_be_planted_in_the_functions_that_stand() -> None:
    for fault in (FAULTS | DRAWN_FAULTS).values():
        (file,) = (ROOT / "sql" / "functions").glob(f"*/{fault.function}.sql")
        text = file.read_text()

        assert fault.planted(text) != text


@pytest.mark.slow
@pytest.mark.parametrize("name", [*FAULTS, *DRAWN_FAULTS])
def test_planted_fault_is_found(embedded_databases: Databases, tmp_path: Path, name: str) -> None:
    fault, url = (FAULTS | DRAWN_FAULTS)[name], embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        fault.plant(owner)
    drawn = name in DRAWN_FAULTS
    if drawn:
        watch(url)
    with two_nodes(url) as nodes:
        for place, seed in enumerate(fault.seeds, 1):
            path = tmp_path / f"{seed}.jsonl"
            found = broken(recorded(url, nodes, seed, path, drawn=drawn, patience=IMPATIENT))
            if fault.rule in found or (found and not fault.rule):
                print(f"{name}: {', '.join(found)} in history {place}")  # noqa: T201
                return
    pytest.fail(f"not found in {MOST} histories")
