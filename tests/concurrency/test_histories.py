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
from concurrency.planted import FAULTS, MOST
from concurrency.rules import broken
from concurrency.workload import recorded, two_nodes
from support.nodes import Nodes
from support.postgres import Databases

SLOW_SEEDS = [pytest.param(seed, marks=pytest.mark.slow) for seed in (2, 3, *range(200, 260))]
SLOW_KILLS = [pytest.param(seed, marks=pytest.mark.slow) for seed in range(300, 315)]
# A fault that lets messages be stuck is found without a long wait for them.
IMPATIENT = 15


@pytest.fixture(scope="module")
def database(embedded_databases: Databases) -> str:
    return embedded_databases.migrated()


@pytest.fixture(scope="module")
def nodes(database: str) -> Iterator[Nodes]:
    with two_nodes(database) as found:
        yield found


def check(ops: list[Op], seed: int, path: Path) -> None:
    done = Counter(op.op for op in ops if op.type == "ok")

    assert broken(ops) == {}, f"seed {seed}; its history: {path}"
    assert all(done[kind] > 0 for kind in ("send", "receive", "delete", "hide")), done


@pytest.mark.parametrize("seed", [0, 1, *SLOW_SEEDS])
def test_history_breaks_no_rule(database: str, nodes: Nodes, tmp_path: Path, seed: int) -> None:
    path = tmp_path / "history.jsonl"

    check(recorded(database, nodes, seed, path), seed, path)


@pytest.mark.parametrize("seed", [100, *SLOW_KILLS])
def test_history_with_a_killed_node_breaks_no_rule(
    database: str, nodes: Nodes, tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "history.jsonl"
    ops = recorded(database, nodes, seed, path, kills=True)

    check(ops, seed, path)
    assert [op.type for op in ops if op.op == "kill"] == ["ok"]


@pytest.mark.slow
@pytest.mark.parametrize("name", FAULTS)
def test_planted_fault_is_found(embedded_databases: Databases, tmp_path: Path, name: str) -> None:
    fault, url = FAULTS[name], embedded_databases.migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        fault.plant(owner)
    with two_nodes(url) as nodes:
        for seed in fault.seeds:
            path = tmp_path / f"{seed}.jsonl"
            if broken(recorded(url, nodes, seed, path, patience=IMPATIENT)):
                return
    pytest.fail(f"not found in {MOST} histories")
