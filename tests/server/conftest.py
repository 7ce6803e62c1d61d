"""Folders for embedded servers."""

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import is_alive, pids_with, until


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder that every account can pass; nothing runs in it after the test."""
    folder = Path(tempfile.mkdtemp(prefix="skipmq-test-"))
    folder.chmod(0o755)
    yield folder
    until(lambda: not [pid for pid in pids_with(str(folder)) if is_alive(pid)], "all have ended")
    shutil.rmtree(folder)


@pytest.fixture
def data(place: Path) -> Path:
    return place / "data"
