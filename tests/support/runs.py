"""Runs of pytest in processes of their own, which find our plugin by its entry point."""

import os
import subprocess
import sys
from pathlib import Path

from support.forks import Forked, Interpreter

# Without Hypothesis, whose plugin is half of the time that pytest takes to start.
PYTEST = [
    *(sys.executable, "-m", "pytest"),
    *("-p", "no:cacheprovider", "-p", "no:randomly", "-p", "no:hypothesispytest"),
]


class Run(Forked):
    """A process that has imported what tests and the plugin import, but no plugin."""

    of_others = Interpreter(sys.executable, ("pytest", "boto3", "encodings.idna", "unittest"))


def variables() -> dict[str, str]:
    """Return the variables of such a run."""
    return {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}  # noqa: TID251


def folder(place: Path) -> Path:
    """Make a folder for tests, with a configuration as strict as this repository's."""
    made = place / "tests"
    made.mkdir()
    lines = ["[pytest]", "addopts = --import-mode=importlib --strict-config --strict-markers"]
    (made / "pytest.ini").write_text("\n".join([*lines, "filterwarnings = error"]))
    return made


def run(tests: Path, variables: dict[str, str], *options: str, code: int = 0) -> str:
    """Run the tests of a folder; return what pytest said."""
    pipe = subprocess.PIPE
    words = [*PYTEST, *options]
    with Run(words, cwd=tests, env=variables, stdout=pipe, stderr=pipe, text=True) as process:
        printed, said = process.communicate(timeout=120)
    assert process.returncode == code, printed + said
    return str(printed)
