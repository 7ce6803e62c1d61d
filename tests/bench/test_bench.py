import json
import os
import re
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench import wire
from bench.__main__ import bench
from bench.cases import CASES
from bench.clients import percentile
from bench.load import Failed, Outcome, Shape, parse_pgbench, parse_wrk
from bench.peers import BEFORE, SKIPMQ_NAME
from bench.record import Comparison, Pair, WarmUp
from bench.report import goals, markdown, notes, number, summary
from bench.run import PEERS, SQL, Form, warm_up
from bench.soak import growth
from bench.usage import Meter
from support.http import ROOT
from support.programs import need

WRK = """\
Running 1s test @ http://127.0.0.1:40719
  1 threads and 16 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.94ms    7.40ms  66.52ms   84.24%
    Req/Sec     1.29k   151.73     1.49k    60.00%
  1286 requests in 1.00s, 1.35MB read
Requests/sec:   1285.16
Transfer/sec:      1.35MB
{"seconds": 1.000653, "requests": 1286, "sent": 4340, "received": 4204, "deleted": 4174, \
"failed": 0, "lost": 0, "p50_ms": 11.317, "p99_ms": 42.164, "why": ""}
"""
# A child uses 0.25 s of processor time and ends; then its parent says so.
BUSY = """
import subprocess, sys
child = "import time\\nwhile time.process_time() < 0.25: pass"
print("ready", flush=True)
sys.stdin.readline()
subprocess.run([sys.executable, "-c", child], check=True)
print("used", flush=True)
sys.stdin.read()
"""
PGBENCH = """\
pgbench (18.6)
transaction type: tests/bench/pgbench/skipmq.sql
scaling factor: 1
query mode: prepared
number of clients: 4
number of threads: 1
maximum number of tries: 1
duration: 1 s
number of transactions actually processed: 774
number of failed transactions: 0 (0.000%)
latency average = 5.129 ms
initial connection time = 11.313 ms
tps = 779.891231 (without initial connection time)
"""


def comparison() -> Comparison:
    found = Comparison(
        "case", "title", "messages/s", "one", pairs=[Pair("other", "one", 2), Pair("other", "x", 1)]
    )
    for one, other in ((100, 300), (50, 150), (200, 100)):
        found.add("one", one)
        found.add("other", other, {"p50_ms": other / 100})
    found.failures["moto"] = "the package moto is not installed"
    return found


def test_rate_of_wrk_is_of_messages_that_lived_their_whole_life() -> None:
    outcome = parse_wrk(WRK)

    assert outcome.rate == pytest.approx(4171.28, abs=0.01)
    assert outcome.details["p99_ms"] == 42.164
    assert parse_wrk(WRK, whole=False).rate == pytest.approx(1285.16, abs=0.01)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('"failed": 0', '"failed": 3', "3 errors"),
        ('"lost": 0', '"lost": 1', "1 lost requests"),
        ('"received": 4204', '"received": 0', "nothing was received"),
        ('{"seconds"', "unable to connect", "unable to connect"),
    ],
)
def test_run_of_wrk_with_errors_or_without_messages_does_not_count(
    old: str, new: str, said: str
) -> None:
    with pytest.raises(Failed, match=said):
        parse_wrk(WRK.replace(old, new))


def test_rate_of_pgbench_is_of_messages_that_were_deleted() -> None:
    assert parse_pgbench(PGBENCH, 10, 0).rate == pytest.approx(7798.91, abs=0.01)
    assert parse_pgbench(PGBENCH, 10, 3870).rate == pytest.approx(7798.91 / 2, abs=0.01)


@pytest.mark.parametrize(
    ("old", "new"), [("failed transactions: 0", "failed transactions: 2"), ("tps", "")]
)
def test_run_of_pgbench_with_failures_does_not_count(old: str, new: str) -> None:
    with pytest.raises(Failed):
        parse_pgbench(PGBENCH.replace(old, new), 10, 0)


def test_run_of_pgbench_that_deletes_nothing_does_not_count() -> None:
    with pytest.raises(Failed, match="nothing was deleted"):
        parse_pgbench(PGBENCH, 10, 7740)


def test_ratio_is_of_the_rounds_not_of_medians() -> None:
    (ratio,) = comparison().ratios()

    assert ratio.rounds == [3, 3, 0.5]
    assert comparison().median("other") / comparison().median("one") == 1.5
    assert [(goal.shown, goal.met) for goal in goals(comparison())] == [("3 x", True)]


def test_ratio_of_a_contestant_that_missed_a_round_is_left_out() -> None:
    found = comparison()
    found.values["other"].pop()

    assert found.ratios() == []


def test_goal_is_met_from_the_side_that_is_better() -> None:
    found = comparison()
    assert [goal.met for goal in goals(found)] == [True]

    found.less_is_better, found.limits = True, {"one": 99}
    assert [(goal.met, goal.goal_shown) for goal in goals(found)] == [
        (False, "≤ 2"),
        (False, "≤ 99"),
    ]


def test_goal_of_a_contestant_that_was_not_warm_has_no_verdict() -> None:
    found = comparison()
    found.warm_ups = {"other": WarmUp(60, [10, 20, 30], steady=False)}

    page = markdown([found], "subtitle")

    assert "| 3 x | ≥ 2 | not warm |" in page
    assert notes(found)[-1] == "other: not steady after 60 s of warm-up"


def test_results_are_medians_and_extremes_and_why_others_are_missing() -> None:
    found = comparison().as_json()

    assert json.loads(json.dumps(found)) == found
    assert found["contestants"]["other"] == {
        "median": 150, "lowest": 100, "highest": 300, "p50_ms": 1.5
    }  # fmt: skip
    assert found["failures"] == {"moto": "the package moto is not installed"}


def test_results_are_drawn(tmp_path: Path) -> None:
    from bench.chart import memory, ratios  # noqa: PLC0415 - Matplotlib, for this test alone.

    nothing = comparison()
    nothing.values["other"] = [0, 0, 0]
    ratios([comparison(), nothing], "subtitle", tmp_path / "ratios.png")
    memory([(0, 90), (30, 120), (60, 121)], 1, 10, "subtitle", tmp_path / "memory.png")

    assert (tmp_path / "ratios.png").stat().st_size > 10_000
    assert (tmp_path / "memory.png").stat().st_size > 10_000
    assert summary([comparison()]).row_count == 1


@pytest.mark.parametrize(
    ("jvm", "windows", "steady", "rates", "costs"),
    [
        (False, 3, True, [50, 100, 104, 999], [1, 1, 1, 1]),
        (False, 6, False, [1, 2, 4, 8, 16, 32, 64], [1] * 7),
        # It wavers, but no longer rises.
        (False, 6, True, [90, 100, 110, 100, 90, 108], [1] * 6),
        (True, 4, True, [100] * 5, [90, 50, 49, 49, 49]),
        # Like rates, as the machine is busy, of a JVM that still compiles.
        (True, 6, False, [100] * 7, [900, 600, 400, 300, 250, 200, 150]),
    ],
)
def test_warm_up_ends_when_rate_and_cost_stand_still(
    jvm: bool, windows: int, steady: bool, rates: list[float], costs: list[float]
) -> None:
    left = iter(zip(rates, costs, strict=True))
    form = Form(1, 10, window=5, most=30, jvm=10)

    def measure(_: int) -> Outcome:
        rate, cost = next(left)
        return Outcome(rate, {"broker_us": cost})

    assert warm_up(measure, form, jvm=jvm) == WarmUp(5 * windows, rates[:windows], steady)


def test_warm_up_of_one_that_never_answers_is_not_steady() -> None:
    def measure(_: int) -> Outcome:
        raise Failed("nothing was received")

    assert not warm_up(measure, Form(1, 10, window=5, most=30, jvm=10), jvm=True).steady


def test_meter_counts_what_children_used_that_ended_meanwhile() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", BUSY], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdin is not None
        assert parent.stdout is not None
        assert parent.stdout.readline() == "ready\n"
        meter = Meter.start(parent.pid, parent.pid)
        parent.stdin.write("go\n")
        parent.stdin.flush()
        assert parent.stdout.readline() == "used\n"

        found = meter.per_request(1000)

        assert found["broker_us"] >= 200
        assert found["database_us"] >= 200
        assert found["switches"] > 0
        assert 0 < found["memory_mb"] <= found["resident_mb"]
        parent.stdin.close()


@pytest.mark.parametrize(
    ("value", "shown"), [(0.01234, "0.0123"), (7.0, "7"), (99.96, "100"), (12345.6, "12,346")]
)
def test_number_is_shown_with_three_digits(value: float, shown: str) -> None:
    assert number(value) == shown


def test_percentile_lies_between_samples() -> None:
    assert percentile(range(101), 99) == 99
    assert percentile([1, 2], 50) == 1.5


def test_growth_is_of_the_second_half_and_not_of_its_peaks() -> None:
    flat = [(float(at), 100.0 + (50 if at % 10 == 0 else 0)) for at in range(100)]
    early = [(at, min(value, 60 + at)) for at, value in flat]
    steady = [(at, value + at) for at, value in flat]

    assert growth(flat)[0] == pytest.approx(0)
    assert growth(early)[0] == pytest.approx(0)
    assert growth(steady)[0] == pytest.approx(99)
    assert growth(steady)[1] == 10


def test_each_case_says_what_it_is_and_has_two_forms_of_the_same_sizes() -> None:
    for name, case in CASES.items():
        assert case.measure.__doc__, name
        assert set(case.quick.sizes) == set(case.full.sizes), name
    assert [field.name for field in fields(Shape)] == [
        "batch", "size", "groups", "connections"
    ]  # fmt: skip


def test_requests_of_many_users_are_signed_by_each_in_turn() -> None:
    keys = [{"key": f"KEY{number}", "secret": "secret"} for number in range(3)]

    lines = wire.signed("http://127.0.0.1:1", "queue", keys, 1, 8)

    by = [re.findall("^(.*?)\t.*Credential=(.*?)/", line)[0] for line in lines]
    assert by[:8] == [
        (action, f"KEY{number}")
        for number in (0, 1, 2, 0)
        for action in ("SendMessage", "ReceiveMessage")
    ]


@pytest.mark.parametrize("size", ["nothing=1", "queues=", "queues=[1"])
def test_size_that_no_case_has_or_no_json_is_refused(size: str) -> None:
    assert CliRunner().invoke(bench, ["--list", "--size", size]).exit_code == 2


def measured(folder: Path, *words: str) -> tuple[Path, dict[str, Any]]:
    """Run the benchmark in its quick form; return the file of its results and what is in it."""
    need("wrk")
    words = (sys.executable, "-m", "bench", "--quick", "--seconds", "1", *words)
    done = subprocess.run(
        [*words, "--output", str(folder)],
        cwd=ROOT / "tests", env=os.environ | {"PYTHONPATH": "../deploy"},  # noqa: TID251
        capture_output=True, text=True, timeout=400, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (file,) = folder.glob("*-quick.json")
    found = json.loads(file.read_text())
    assert found["failures"] == {}
    return file, found


@pytest.mark.slow
def test_many_queues_and_users_are_measured_for_real_beside_another_checkout(
    tmp_path: Path,
) -> None:
    # The commands of this checkout stand for those of another.
    before = Path(sys.executable).with_name("skipmq")
    words = ("--case", "queues", "--case", "senders", "--peer", "skipmq", "--before", str(before))

    few = ('kinds=["FIFO"]', "queues=[1,20]", "users=3")
    _, found = measured(tmp_path, *words, *(f"--size={size}" for size in few))

    queues = {f"{name}, {n}" for name in (SKIPMQ_NAME, BEFORE) for n in ("1 queue", "20 queues")}
    users = {f"{name}, {n}" for name in (SKIPMQ_NAME, BEFORE) for n in ("1 user", "3 users")}
    rates = ["FIFO, 128 groups, 64 connections", "64 connections"]
    comparisons = {each["title"]: each for each in found["comparisons"]}
    assert len(comparisons) == 3 * len(rates)
    for title, names in zip(rates, (queues, users), strict=True):
        assert set(comparisons[title]["contestants"]) == names
        for whose in ("the broker", "PostgreSQL"):
            costs = comparisons[f"{whose}'s processor time a request, {title}"]
            assert set(costs["contestants"]) == names
            assert min(each["median"] for each in costs["contestants"].values()) > 0
            assert {ratio["of"].rpartition(", ")[2] for ratio in costs["ratios"]} <= {
                "20 queues", "3 users"
            }  # fmt: skip
            assert len(costs["ratios"]) == 2
            assert costs["failures"] == {}


@pytest.mark.slow
def test_life_cycle_is_measured_for_real(tmp_path: Path) -> None:
    file, found = measured(tmp_path, "--case", "life-cycle", "--peer", "skipmq", "--peer", "sql")

    sizes = CASES["life-cycle"].quick.sizes
    assert len(found["comparisons"]) == 2 * len(sizes["connections"] + sizes["bodies"])
    for comparison in found["comparisons"]:
        assert set(comparison["contestants"]) == {PEERS["skipmq"], SQL}
        node = comparison["contestants"][PEERS["skipmq"]]
        wanted = {"broker_us", "database_us", "switches", "p50_ms", "p99_ms", "memory_mb"}
        assert wanted < set(node)
        assert min(node.values()) > 0
        assert comparison["warm_up"][PEERS["skipmq"]]["seconds"] in {2, 3}
        assert [ratio["median"] > 0 for ratio in comparison["ratios"]] == [True]
        assert comparison["failures"] == {}
    assert found["versions"]["PostgreSQL"].startswith("18.")
    assert file.with_suffix(".png").stat().st_size > 10_000
    assert "## life-cycle: batch 1, 256 B" in file.with_suffix(".md").read_text()
