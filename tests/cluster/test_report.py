"""The history on disk, the numbers of a run and its picture."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from cluster import report
from cluster.__main__ import command
from cluster.bounds import BOUNDS
from cluster.faults import FAULTS
from cluster.history import History, Op, read
from cluster.queues import body, value_of
from cluster.run import judge
from cluster.story import QUEUE, closing, fault, life, send, steady


@pytest.fixture
def ops() -> list[Op]:
    lost = send(3, "lost")
    faults = [
        *fault("postgres-crash", 10),
        *fault("node-crash", 30, place=2),
        *fault("postgres-crash", 40, place=3),
    ]
    return [*steady(0, 10), lost, *steady(12, 41), *steady(47, 60), *faults, *closing()]


def test_history_is_read_as_it_was_written(tmp_path: Path, ops: list[Op]) -> None:
    file = tmp_path / "new" / "history.jsonl"
    with History(file) as history:
        history.add(*ops[:3])
        history.add(*ops[3:])
        during = list(read(file))

    assert during == ops
    assert history.ops == ops


def test_line_that_a_crash_cut_off_is_left_out(tmp_path: Path) -> None:
    file = tmp_path / "history.jsonl"
    with History(file) as history:
        history.add(*life(0, "a"))
    file.write_text(file.read_text()[:-5])

    assert list(read(file)) == life(0, "a")[:2]


def test_outages_are_measured_and_shown_by_fault_and_way(ops: list[Op]) -> None:
    outcome = judge(ops, seed=7)

    seconds = [(o.window.fault, round(o.seconds, 1), o.met) for o in outcome.outages]
    table = report.recovery_table([outcome, judge(ops, connect="haproxy")])

    assert seconds == [
        ("postgres-crash", 2.5, True),
        ("node-crash", 0.5, True),
        ("postgres-crash", 6.5, False),
    ]
    assert report.spread(outcome.outages) == "2.5 s  (0.5 to 6.5, 3 times)"
    assert [column.header for column in table.columns] == [
        "fault",
        "multi-host",
        "haproxy",
        "at most",
        "",
    ]
    assert table.row_count == 2


def test_numbers_and_findings_stand_in_the_result(ops: list[Op]) -> None:
    outcome = judge(ops, seed=7)
    found = outcome.as_json()

    assert not outcome.good
    assert found["counts"]["lost"] == 1
    assert found["counts"]["acknowledged messages"] == len(outcome.record.sends)
    assert found["findings"]["no acknowledged send lost"] == [
        "orders: lost was acknowledged and never came"
    ]
    assert [each["at"] for each in found["faults"]] == [10, 30, 40]


def test_runs_are_drawn(tmp_path: Path, ops: list[Op]) -> None:
    from cluster import chart  # noqa: PLC0415 - Matplotlib, for this test alone.

    chart.draw([judge(ops), judge(ops, connect="haproxy")], "subtitle", tmp_path / "runs.png")

    assert (tmp_path / "runs.png").stat().st_size > 20_000


def test_every_fault_has_a_bound_and_says_what_it_does() -> None:
    assert set(FAULTS) == set(BOUNDS)
    assert all(fault.about for fault in FAULTS.values())


@pytest.mark.parametrize("changed", ["{}x", "x{}", "{}."])
def test_body_that_was_changed_has_no_value_that_was_sent(changed: str) -> None:
    text = body("standard-1-17")

    assert value_of(text) == "standard-1-17"
    assert value_of(changed.format(text)) != "standard-1-17"


def test_recorded_history_is_judged(tmp_path: Path, ops: list[Op]) -> None:
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    with History(good) as history:
        history.add(*life(0, "a"), *closing(QUEUE))
    with History(bad) as history:
        history.add(*ops)

    passed, failed = (CliRunner().invoke(command, ["--judge", str(file)]) for file in (good, bad))

    assert (passed.exit_code, failed.exit_code) == (0, 1)
    assert "orders: lost was acknowledged and never came" in failed.output
    assert "postgres-crash" in failed.output


def test_faults_are_listed() -> None:
    listed = CliRunner().invoke(command, ["--list"]).output.splitlines()

    assert [line.split()[0] for line in listed] == [*FAULTS]
