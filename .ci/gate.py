"""Runs pytest for the gate, which one wavering test cannot refuse: `gate.py FILE [OPTION|TEST]...`.

A test that fails is run again alone, twice, each in a process of its own. FILE has what wavered in
earlier runs of the same gate, a line each, and gets the lines of this one. The seconds that the
tests of each folder took are printed at the end, and how busy the machine's processors were: how
much more workers could gain.
"""

import re
import subprocess
import sys
from collections import defaultdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
import pytest

MAX_WAVERING = 3
TIMES = 2
# That one test may take alone.
SECONDS = 600


class Gate:
    """Lets a run pass whose failures do not come again."""

    def __init__(self, noted: Path) -> None:
        self.lines = noted.read_text(encoding="utf-8").splitlines() if noted.exists() else []
        self._noted = noted
        self._finished: set[str] = set()
        # How many seconds the tests of a folder took, of all workers together.
        self._seconds: defaultdict[str, float] = defaultdict(float)
        # Since a call before: of all processes, also of servers that no test waits for.
        psutil.cpu_percent()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Note that a test was run, and how long it took."""
        self._finished.add(report.nodeid)
        self._seconds[report.nodeid.partition("::")[0].rpartition("/")[0]] += report.duration

    def pytest_terminal_summary(
        self, terminalreporter: Any, exitstatus: int, config: pytest.Config
    ) -> None:
        """Run again what failed, when all tests have run and their workers have stopped."""
        terminalreporter.section("seconds by folder")
        for folder, seconds in sorted(self._seconds.items(), key=lambda item: -item[1]):
            terminalreporter.write_line(f"{seconds:8.1f} {folder}")
        busy = psutil.cpu_percent()
        terminalreporter.write_line(f"{busy:7.1f}% of {psutil.cpu_count()} processors were busy")
        stats = terminalreporter.stats
        reports = [*stats.get("failed", ()), *stats.get("error", ())]
        if exitstatus != pytest.ExitCode.TESTS_FAILED or not reports:
            return
        session: Any = config.pluginmanager.get_plugin("session")
        known = config.rootpath / "tests" / "WAVERING"
        terminalreporter.section("gate")
        first = {report.nodeid: report for report in reversed(reports)}
        failures = {test: _reason(report) for test, report in first.items()}
        refusal = ""
        if len(self._finished) < session.testscollected or not all(
            isinstance(report, pytest.TestReport) for report in reports
        ):
            refusal = "not all tests were run"
        elif len(self.lines) + len(failures) > MAX_WAVERING:
            refusal = f"more than {MAX_WAVERING} tests failed"
        elif standing := [test for test in failures if _is_in(known, test)]:
            refusal = f"in {known.relative_to(config.rootpath)} already: {', '.join(standing)}"
        elif failing := [test for test in failures if not _passes_alone(test, config)]:
            refusal = f"failed alone too: {', '.join(failing)}"
        if refusal:
            terminalreporter.write_line(f"the gate refuses: {refusal}", red=True)
            return

        lines = [f"{test}: {reason}" for test, reason in failures.items()]
        self.lines += lines
        _append(self._noted, lines)
        _append(known, [f"{datetime.now(UTC).date()} {line}" for line in lines])
        for line in lines:
            terminalreporter.write_line(f"wavering: {line}", yellow=True)
        for category in ("failed", "error"):
            stats.pop(category, None)
        terminalreporter._add_stats("wavering", [*first.values()])  # noqa: SLF001 - what its last line counts.
        session.exitstatus = pytest.ExitCode.OK


def _reason(report: Any) -> str:
    """Return the last line of a failure: what was raised."""
    crash = getattr(report.longrepr, "reprcrash", None)
    message = crash.message.strip().splitlines()[:1] if crash else []
    lines: list[str] = message or report.longreprtext.strip().splitlines() or ["no reason"]
    return lines[-1].encode("utf-8", "backslashreplace").decode("utf-8")


def _is_in(known: Path, test: str) -> bool:
    """Return whether a file of lines of a date, a test and a reason has the test."""
    lines = known.read_text(encoding="utf-8").splitlines() if known.exists() else []
    return any(line.partition(" ")[2].startswith(f"{test}: ") for line in lines)


def _passes_alone(test: str, config: pytest.Config) -> bool:
    """Run a test alone, with the options of this run and its seed; print what fails."""
    given = config.invocation_params.args
    options = [str(option) for option in given if option not in config.option.file_or_dir]
    if isinstance(seed := config.getoption("randomly_seed", None), int):
        options.append(f"--randomly-seed={seed}")
    for _ in range(TIMES):
        print(f"again alone: {test}", flush=True)
        command = [sys.executable, "-P", "-m", "pytest", *options, "-n", "0", test]
        try:
            run = subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False,
                timeout=SECONDS,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"it did not end within {SECONDS} s", flush=True)
            return False
        if run.returncode != 0 or not re.search(r"^=* ?1 passed", run.stdout, re.MULTILINE):
            print(run.stdout, run.stderr, flush=True)
            return False
    return True


def _append(file: Path, lines: list[str]) -> None:
    with file.open("a", encoding="utf-8") as target:
        target.writelines(f"{line}\n" for line in lines)


if __name__ == "__main__":
    gate = Gate(Path(sys.argv[1]))
    status = pytest.main(sys.argv[2:], plugins=[gate])
    for wavering in gate.lines:
        print(f"wavering: {wavering}")
    sys.exit(status)
