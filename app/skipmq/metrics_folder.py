"""The folder in which the processes of a node keep their metrics."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_PREFIX = "skipmq-metrics-"


@contextmanager
def shared() -> Iterator[Path]:
    """Give a folder for the processes of this node; remove those of nodes that were killed.

    A node locks its own, so that nodes that do not see each other's processes share a /tmp.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    with _locked(made):
        folder = made.rename(made.with_name(made.name.removeprefix(".")))  # Now others find it.
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder in the block. Raises OSError when somebody else does."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)
