"""The test of the README, and those of the guide that need runners of their own."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.http import ROOT

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
GUIDE = BLOCK.findall((ROOT / "app" / "docs" / "guides" / "test.md").read_text())
FRONT = [text for _, text in BLOCK.findall((ROOT / "README.md").read_text()) if "(skipmq)" in text]
PYTEST = [
    *("pytest", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"),
    *("-p", "no:hypothesispytest"),
]


def run(folder: Path, *words: str) -> str:
    runners = ROOT / ".cache" / "clients" / "runners"
    assert (runners / ".installed").exists(), "run `make clients`, which installs it"
    done = subprocess.run(
        [sys.executable, "-m", *words],
        cwd=folder,
        env=os.environ | {"PYTHONPATH": str(runners)},  # noqa: TID251
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def write(folder: Path, *names: str) -> None:
    """Write files that the guide shows, each of which begins with its name."""
    for name in names:
        (text,) = (text for _, text in GUIDE if text.startswith(f"# {name}\n"))
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_test_of_the_readme_passes(tmp_path: Path) -> None:
    for number, text in enumerate(FRONT):
        (tmp_path / f"test_block_{number}.py").write_text(text)

    assert f"{len(FRONT)} passed" in run(tmp_path, *PYTEST)


def test_scenario_of_the_guide_passes_under_behave(tmp_path: Path) -> None:
    write(tmp_path, "features/environment.py", "features/steps/orders.py")
    write(tmp_path, "features/orders.feature")

    said = run(tmp_path, "behave", "--no-color")

    assert "1 scenario passed, 0 failed" in said
    assert "3 steps passed, 0 failed" in said


@pytest.mark.parametrize("mode", ["strict", pytest.param("auto", marks=pytest.mark.slow)])
def test_coroutine_of_the_guide_passes_under_pytest_asyncio(tmp_path: Path, mode: str) -> None:
    write(tmp_path, "test_asynchronous.py")
    aiobotocore = ROOT / ".cache" / "clients" / "aiobotocore"
    # Its botocore is another than that of the tests.
    (tmp_path / "conftest.py").write_text(f"import sys; sys.path.insert(0, {str(aiobotocore)!r})\n")

    said = run(tmp_path, *PYTEST, "-o", f"asyncio_mode={mode}")

    assert "1 passed" in said
