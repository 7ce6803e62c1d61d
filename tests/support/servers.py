"""Embedded servers of tests, which are copies of one cluster."""

import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import psutil

from skipmq.database import embedded
from skipmq.database.embedded import binaries, data_folder, server

# A file system in memory, and how much is free where there is plenty.
MEMORY = Path("/dev/shm")
PLENTY = 8 << 30
_clusters: list[Path] = []


def start(data: Path, *, ephemeral: bool = False, bin_dir: Path | None = None) -> embedded.Server:
    """Start the server of a folder as `embedded.start` does, in a quarter of the time.

    The rest of it makes the cluster, by initdb.
    """
    return embedded.start(data, ephemeral=ephemeral, bin_dir=bin_dir, template=_cluster(bin_dir))


def remove_clusters() -> None:
    """Remove what servers were copied from, at the end of a run: a worker's exit is none."""
    while _clusters:
        shutil.rmtree(_clusters.pop(), ignore_errors=True)


@cache
def _cluster(bin_dir: Path | None) -> Path:
    """Make a cluster that nothing runs on, once in a run of tests."""
    place = Path(tempfile.mkdtemp(prefix="skipmq-tests-cluster-", dir=memory()))
    place.chmod(0o711)
    _clusters.append(place)
    folder = data_folder.Folder(place, ephemeral=True, bin_dir=bin_dir)
    lock = server.lock(place / "start.lock", fcntl.LOCK_EX)
    data_folder.create_cluster(folder, binaries.find(bin_dir), lock)
    os.close(lock)
    return folder.cluster


def memory() -> Path | None:
    """Return a file system in memory, if there is plenty: what it holds is missing elsewhere."""
    has_plenty = (
        os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free >= PLENTY
        and psutil.virtual_memory().available >= PLENTY
    )
    return MEMORY if has_plenty else None
