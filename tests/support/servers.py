"""Embedded servers of tests, which are copies of one cluster."""

import atexit
import fcntl
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import psutil

from skipmq.database import embedded
from skipmq.database.embedded import binaries, data_folder, server
from support.postgres import Databases

# A file system in memory, and how much is free where there is plenty.
MEMORY = Path("/dev/shm")
PLENTY = 8 << 30
# Every ten seconds, as else, vacuum takes more than all else of servers that tests leave alone.
_SETTINGS = "autovacuum_naptime = 1min\n"
# The variable that names the folder of the clusters.
KEPT = "TESTS_CLUSTERS"


def start(
    data: Path, *, ephemeral: bool = False, bin_dir: Path | None = None, migrated: bool = False
) -> embedded.Server:
    """Start the server of a folder as `embedded.start` does, in a quarter of the time.

    The rest of it makes the cluster, by initdb. One that is `migrated` has what databases with the
    schema are copies of, and the roles: to make them takes a second.
    """
    template = cluster(bin_dir, migrated=migrated)
    return embedded.start(data, ephemeral=ephemeral, bin_dir=bin_dir, template=template)


def keep_clusters() -> None:
    """Make the folder of the clusters that servers are copied from, for all workers of a run."""
    place = tempfile.mkdtemp(prefix="skipmq-tests-clusters-", dir=memory())
    Path(place).chmod(0o711)
    os.environ[KEPT] = place  # noqa: TID251 - the workers inherit it.


def remove_clusters() -> None:
    """Remove them at the end of a run: a worker's exit is none."""
    if kept := os.environ.pop(KEPT, ""):  # noqa: TID251
        shutil.rmtree(kept, ignore_errors=True)


@cache
def cluster(bin_dir: Path | None = None, *, migrated: bool = False) -> Path:
    """Make a cluster that nothing runs on, once in a run of tests."""
    if KEPT not in os.environ:  # noqa: TID251 - not a run of pytest.
        keep_clusters()
        atexit.register(remove_clusters)
    kept = Path(os.environ[KEPT])  # noqa: TID251
    name = f"{'migrated' if migrated else 'plain'}-{str(bin_dir).replace('/', '-')}"
    made = kept / name
    lock = server.lock(kept / f"{name}.lock", fcntl.LOCK_EX)
    try:
        if not made.exists():
            folder = kept / f"{name}.new"
            folder.mkdir()
            folder.chmod(0o711)
            (_migrate if migrated else _initialize)(folder, bin_dir)
            folder.rename(made)
    finally:
        os.close(lock)
    return made / "postgresql"


def _initialize(place: Path, bin_dir: Path | None) -> None:
    folder = data_folder.Folder(place, ephemeral=True, bin_dir=bin_dir)
    lock = server.lock(place / "start.lock", fcntl.LOCK_EX)
    data_folder.create_cluster(folder, binaries.find(bin_dir), lock)
    os.close(lock)
    with (folder.cluster / "postgresql.auto.conf").open("a") as settings:
        settings.write(_SETTINGS)


def _migrate(place: Path, bin_dir: Path | None) -> None:
    (place / "local.conf").write_text("fsync = off\nfull_page_writes = off\n")
    (place / "local.conf").chmod(0o644)
    with start(place, bin_dir=bin_dir) as running:
        Databases(running).make_template()
    # Its keeper holds this lock until PostgreSQL has stopped.
    os.close(server.lock(place / "keeper.lock", fcntl.LOCK_EX))


def memory() -> Path | None:
    """Return a file system in memory, if there is plenty: what it holds is missing elsewhere."""
    has_plenty = (
        os.access(MEMORY, os.W_OK)
        and shutil.disk_usage(MEMORY).free >= PLENTY
        and psutil.virtual_memory().available >= PLENTY
    )
    return MEMORY if has_plenty else None
