"""The folder in which the processes of a node publish their metrics."""

import asyncio
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from skipmq.telemetry.logs import log
from skipmq.telemetry.metrics import Published, Snapshot

_PREFIX = "skipmq-metrics-"
INTERVAL = 0.5
_decode = msgspec.msgpack.Decoder(Snapshot).decode


@contextmanager
def shared() -> Iterator[Path]:
    """Create the folder of this node and remove those of nodes that were killed.

    A node locks its folder, because nodes that share a /tmp may be in different PID namespaces.
    """
    for left in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError), _locked(left):
            shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=f".{_PREFIX}"))
    with _locked(made):
        # Other nodes must not find it before it is locked.
        folder = made.rename(made.with_name(made.name.removeprefix(".")))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock of a folder in the block; raise OSError if another process holds it."""
    opened = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(opened)


class Publisher:
    """Writes the metrics of this process to its file every INTERVAL seconds."""

    def __init__(self, folder: Path, snapshot: Callable[[], Snapshot]) -> None:
        self._folder, self._snapshot = folder, snapshot

    async def run(self) -> None:
        """Publish until cancelled."""
        while True:
            temporary = self._folder / f".{os.getpid()}"
            try:
                temporary.write_bytes(msgspec.msgpack.encode(self._snapshot()))
                temporary.rename(self._folder / f"{os.getpid()}.metrics")
            except OSError as error:
                log.warning("the metrics cannot be published", error=str(error))
            await asyncio.sleep(INTERVAL)


def published(folder: Path) -> list[Published]:
    """Return the latest metrics of each process, including those that have ended."""
    files = sorted(folder.glob("*.metrics"))
    return [Published(_decode(file.read_bytes()), _is_alive(int(file.stem))) for file in files]


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True
