import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.processes import is_alive, pids_with, until


@pytest.fixture
def place() -> Iterator[Path]:
    """Give a folder for temporary files of any account, of which nothing is left after the test."""
    folder = Path(tempfile.mkdtemp(prefix="skipmq-testing-"))
    folder.chmod(0o1777)
    yield folder
    until(lambda: not [pid for pid in pids_with(str(folder)) if is_alive(pid)], "all have ended")
    shutil.rmtree(folder)
