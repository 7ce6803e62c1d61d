"""The folder that the processes of a node share, and the metrics that they keep there."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import structlog

from skipmq.telemetry.metrics import Published, Snapshot

log = structlog.get_logger()

_PREFIX = "skipmq-metrics-"
INTERVAL = 0.5
_decode = msgspec.msgpack.Decoder(Snapshot).decode


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


class Publisher:
    """Writes what `snapshot` returns to the file of this process, again and again."""

    def __init__(self, folder: Path, snapshot: Callable[[], Snapshot]) -> None:
        self._folder, self._snapshot = folder, snapshot

    async def run(self) -> None:
        """Publish until it is cancelled."""
        while True:
            unfinished = self._folder / f".{os.getpid()}"
            try:
                unfinished.write_bytes(msgspec.msgpack.encode(self._snapshot()))
                unfinished.rename(self._folder / f"{os.getpid()}.metrics")
            except OSError as error:
                log.warning("the metrics cannot be published", error=str(error))
            await asyncio.sleep(INTERVAL)


def published(folder: Path) -> list[Published]:
    """Return what each process that there is or was has published last."""
    files = sorted(folder.glob("*.metrics"))
    return [Published(_decode(file.read_bytes()), _lives(int(file.stem))) for file in files]


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
