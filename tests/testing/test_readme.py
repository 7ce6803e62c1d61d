"""Every test in the README files, run as it stands there."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.http import ROOT

FOLDER = ROOT / "app" / "skipmq" / "testing"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
BLOCKS = BLOCK.findall((FOLDER / "README.md").read_text())
FRONT = [text for _, text in BLOCK.findall((ROOT / "README.md").read_text()) if "(skipmq)" in text]
OPTIONS = ["-p", "no:cacheprovider", "-p", "no:randomly"]


def run(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.mark.parametrize("name", ["README.md", "testing/README.md"])
def test_tests_of_the_readme_pass(tmp_path: Path, name: str) -> None:
    ours = [text for language, text in BLOCKS if language == "python"]
    texts = FRONT if name == "README.md" else ours
    for number, text in enumerate(texts):
        (tmp_path / f"test_block_{number}.py").write_text(text)
    settings = [text for language, text in BLOCKS if language == "ini"]
    (tmp_path / "pytest.ini").write_text(settings[0] + "filterwarnings = error\n")
    (tmp_path / "queues.toml").write_text("[queues.declared]\n")

    said = run(tmp_path, "pytest", *OPTIONS)

    assert f"{len(texts)} passed" in said


def test_case_of_the_readme_passes_under_unittest(tmp_path: Path) -> None:
    (text,) = (text for _, text in BLOCKS if "class Orders" in text)
    (tmp_path / "test_cases.py").write_text(text)

    assert "Ran 1 test" in run(tmp_path, "unittest", "test_cases")
