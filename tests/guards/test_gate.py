"""The gate's script passes a test that wavers, once, and refuses a fault."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from support.forks import Forked, Interpreter

SCRIPT = Path(__file__).resolve().parent.parent.parent / ".ci" / "gate.py"
SETTINGS = """
[pytest]
addopts = -p xdist --import-mode=importlib -ra
"""
# A planted test knows how often it was run.
CONFTEST = """
import os
import random
from pathlib import Path

import pytest

def pytest_addoption(parser):
    parser.addoption("--door", default="http")

@pytest.fixture
def runs(request):
    file = Path(request.node.name.partition("[")[0])
    with file.open("a") as target:
        target.write(f"{os.getpid()} {request.config.option.door} {random.random()}\\n")
    return len(file.read_text().splitlines())
"""
# Fails in its first run, and the others that are named by their counts.
WAVERING = """
def test_wavers(runs):
    assert runs not in (1, {more}), "planted"
"""
FAULT = """
def test_fails():
    assert False, "a fault"
"""
OTHER = """
def test_passes():
    pass
"""
Run = Callable[..., "subprocess.CompletedProcess[str]"]


class _Gate(Forked):
    """The script, in a fork of what has imported pytest, three quarters of a short run."""

    of_others = Interpreter(sys.executable, ("pytest", "psutil", "execnet"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "tests").mkdir()
    (tmp_path / "pytest.ini").write_text(SETTINGS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


@pytest.fixture
def run(folder: Path) -> Run:
    """Give what runs the gate on the source of planted tests."""

    def run(source: str, *options: str) -> "subprocess.CompletedProcess[str]":
        (folder / "tests" / "test_planted.py").write_text(source)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}  # noqa: TID251 - without that of these tests.
        with _Gate(
            [sys.executable, str(SCRIPT), "noted", *options],
            cwd=folder,
            env=environment | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as gate:
            printed, said = gate.communicate()
        return subprocess.CompletedProcess(gate.args, gate.returncode, printed, said)

    return run


def listed(folder: Path) -> list[str]:
    """Return the lines of the list of wavering tests, without their dates."""
    file = folder / "tests" / "WAVERING"
    lines = file.read_text().splitlines() if file.exists() else []
    assert all(re.match(r"20\d\d-\d\d-\d\d ", line) for line in lines)
    return [line.partition(" ")[2] for line in lines]


def test_wavering_tests_pass_and_are_listed(run: Run, folder: Path) -> None:
    source = """
import pytest

@pytest.mark.parametrize("value", ["a b[c]: $d 'e'", "\\n"])
def test_wavers(runs, value):
    assert runs > 2, "planted"
"""

    gate = run(source + OTHER, "-n", "1", "-p", "randomly", "tests", "--door", "wsgi")

    test = "tests/test_planted.py::test_wavers"
    lines = [f"{test}[{i}]: AssertionError: planted" for i in ("\\n", "a b[c]: $d 'e'")]
    assert gate.returncode == 0, gate.stdout + gate.stderr
    assert "= 1 passed, 2 wavering in " in gate.stdout.splitlines()[-3]
    assert sorted(gate.stdout.splitlines()[-2:]) == [f"wavering: {line}" for line in lines]
    assert sorted(listed(folder)) == lines
    runs = [line.split() for line in (folder / "test_wavers").read_text().splitlines()]
    processes, doors, values = map(set, zip(*runs, strict=True))
    assert len(runs) == 6, "each once with the others and twice alone"
    assert len(processes) == 5
    assert doors == {"wsgi"}
    assert len(values) == 2, "the seed stays"


def test_seconds_of_each_folder_and_the_share_of_the_processors_are_shown(
    run: Run, folder: Path
) -> None:
    (folder / "tests" / "slow").mkdir()
    (folder / "tests" / "slow" / "test_slow.py").write_text(
        "import time\n\ndef test_takes_a_second():\n    time.sleep(1)\n"
    )

    gate = run(OTHER, "-n", "1", "tests")

    *shown, busy = gate.stdout.partition("= seconds by folder =")[2].splitlines()[1:4]
    seconds, folders = zip(*map(str.split, shown), strict=True)
    assert folders == ("tests/slow", "tests")
    assert float(seconds[0]) >= 1
    assert re.fullmatch(r" +\d+\.\d% of \d+ processors were busy", busy)
    assert 0 < float(busy.partition("%")[0]) <= 100


def test_test_that_passes_once_alone_fails(run: Run, folder: Path) -> None:
    gate = run(WAVERING.format(more=3) + OTHER)

    assert gate.returncode == 1
    assert "the gate refuses: failed alone too: tests/test_planted.py::test_wavers" in gate.stdout
    assert "= 1 failed, 1 passed in " in gate.stdout.splitlines()[-1]
    assert listed(folder) == []


def test_fault_next_to_wavering_test_fails(run: Run, folder: Path) -> None:
    gate = run(WAVERING.format(more=0) + FAULT)

    assert gate.returncode == 1
    assert "failed alone too: tests/test_planted.py::test_fails" in gate.stdout
    assert "= 2 failed in " in gate.stdout.splitlines()[-1]
    assert listed(folder) == []


def test_skip_alone_does_not_pass(run: Run) -> None:
    skips = WAVERING.format(more=0) + "    pytest.skip('alone')\n"

    assert run(f"import pytest\n{skips}").returncode == 1


def test_listed_test_fails(run: Run, folder: Path) -> None:
    line = "tests/test_planted.py::test_wavers: AssertionError: planted"
    assert run(WAVERING.format(more=0)).returncode == 0
    assert listed(folder) == [line]
    (folder / "test_wavers").unlink()
    (folder / "noted").unlink()

    gate = run(WAVERING.format(more=0))

    assert gate.returncode == 1
    assert "refuses: in tests/WAVERING already: tests/test_planted.py::test_wavers" in gate.stdout
    assert listed(folder) == [line]


def test_fourth_wavering_test_of_all_runs_fails(run: Run, folder: Path) -> None:
    (folder / "noted").write_text("a: x\nb: y\nc: z\n")

    passes = run(OTHER)
    fails = run(WAVERING.format(more=0))

    assert passes.returncode == 0
    assert passes.stdout.splitlines()[-3:] == ["wavering: a: x", "wavering: b: y", "wavering: c: z"]
    assert fails.returncode == 1
    assert "the gate refuses: more than 3 tests failed" in fails.stdout


def test_crash_and_errors_of_fixtures_waver(run: Run) -> None:
    source = """
import os

import pytest

def test_crashes(runs):
    if runs == 1:
        os._exit(9)

@pytest.fixture
def before(runs):
    if runs == 1:
        raise ValueError("before\\nit")

@pytest.fixture
def after(runs):
    yield
    if runs == 1:
        raise ValueError("after it")

def test_is_set_up(before):
    pass

def test_is_torn_down(after):
    pass
"""

    gate = run(source, "-n", "1")

    file = "tests/test_planted.py::test"
    assert gate.returncode == 0, gate.stdout + gate.stderr
    assert sorted(gate.stdout.splitlines()[-3:]) == [
        f"wavering: {file}_crashes: worker 'gw0' crashed while running '{file}_crashes'",
        f"wavering: {file}_is_set_up: ValueError: before",
        f"wavering: {file}_is_torn_down: ValueError: after it",
    ]


@pytest.mark.parametrize("workers", ["0", "1"])
def test_run_that_is_not_whole_fails(run: Run, folder: Path, workers: str) -> None:
    stopped = run(WAVERING.format(more=0) + OTHER, "-n", workers, "-x")
    broken = run("import missing", "-n", workers, "--continue-on-collection-errors")

    assert stopped.returncode in (1, 2), stopped.stdout
    assert broken.returncode in (1, 2), broken.stdout
    assert listed(folder) == []
