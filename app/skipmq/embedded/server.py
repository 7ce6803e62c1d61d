"""Starting, sharing and releasing the server.

Every user of a folder holds a shared lock on `users.lock`; a keeper process (keeper.py) runs the
server and stops it when that lock is free. Starters take turns by `start.lock`.
"""

import contextlib
import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Self

import platformdirs

from skipmq.embedded import binaries, data_folder, keeper
from skipmq.embedded.binaries import EmbeddedError, Programs
from skipmq.embedded.data_folder import Folder

_NOTICE_SECONDS = 5


class Server:
    """A use of the embedded PostgreSQL; it stops when its last user has released it or died.

    A process forked (not spawned) from the user is a user, too, until it ends.
    """

    __slots__ = ("_folder", "_lock", "data_dir", "url")

    def __init__(self, folder: Folder, lock: int) -> None:
        self.data_dir = folder.data
        self.url = folder.url
        self._folder = folder
        self._lock: int | None = lock

    def release(self) -> None:
        """Release it. The server stops soon after if this was its last user."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            # A keeper that was killed would leave the server running for nobody.
            keeper_lock = _try_lock(self.data_dir / "keeper.lock")
            if keeper_lock is not None:
                try:
                    _spawn_keeper(self._folder, binaries.find(self._folder.bin_dir), keeper_lock)
                finally:
                    os.close(keeper_lock)
        except (OSError, EmbeddedError) as error:
            _warn("embedded PostgreSQL may run on", reason=str(error))
        finally:
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.release()


def default_data_dir() -> Path:
    """Return the folder of this account's data."""
    return binaries.SYSTEM_FOLDER if os.geteuid() == 0 else platformdirs.user_data_path("skipmq")


def start(data_dir: Path, *, ephemeral: bool = False, bin_dir: Path | None = None) -> Server:
    """Use the server of this folder: make it, recover it or join it, and wait until it is ready.

    Any number of processes may do so at once. An ephemeral folder must be empty or not exist; it is
    removed with its last user. Raises EmbeddedError.
    """
    folder = Folder(data_dir.expanduser().resolve(), ephemeral, bin_dir)
    try:
        _check_reachable(folder.data)
        with contextlib.ExitStack() as starting:
            start_lock, users_lock = _enter(folder.data)
            starting.callback(os.close, start_lock)
            with contextlib.ExitStack() as using:
                using.callback(os.close, users_lock)
                data_folder.check_nature(folder)
                _bring_up(folder, start_lock)
                using.pop_all()
            return Server(folder, users_lock)
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise EmbeddedError(
            f"cannot keep PostgreSQL in {folder.data} ({reason}); {data_folder.ELSEWHERE}"
        ) from error


def start_ephemeral(*, bin_dir: Path | None = None) -> Server:
    """Start a server that is removed, data and all, with its last user.

    Raises EmbeddedError.
    """
    data_dir = Path(tempfile.mkdtemp(prefix="skipmq-"))
    try:
        if os.geteuid() == 0:
            data_dir.chmod(0o711)
        return start(data_dir, ephemeral=True, bin_dir=bin_dir)
    except BaseException:
        shutil.rmtree(data_dir, ignore_errors=True)
        raise


def _enter(data: Path) -> tuple[int, int]:
    """Take the locks of a starter and of a user, of a folder that is not being removed."""
    while True:
        _make_folder(data)
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
            locks = []
            for name, kind in (("start.lock", fcntl.LOCK_EX), ("users.lock", fcntl.LOCK_SH)):
                # A keeper about to end holds the users' lock until PostgreSQL is down.
                locks.append(_lock(data / name, kind))
                stack.callback(os.close, locks[-1])
            start_lock, users_lock = locks
            if os.path.samestat(os.fstat(start_lock), (data / "start.lock").stat()) and (
                os.path.samestat(os.fstat(users_lock), (data / "users.lock").stat())
            ):
                stack.pop_all()
                return start_lock, users_lock


def _make_folder(path: Path) -> None:
    """Make a folder that the server's account can pass; one that exists is left as it is."""
    path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)


def _lock(path: Path, kind: int) -> int:
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, kind)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _try_lock(path: Path) -> int | None:
    try:
        return _lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _check_reachable(data: Path) -> None:
    account = binaries.own_account()
    if account and (blocked := binaries.obstacle(data, account)):
        raise EmbeddedError(
            f"PostgreSQL cannot run as root, and the account it runs as cannot pass {blocked};"
            f" {data_folder.ELSEWHERE}, or let it: chmod o+x {blocked}"
        )


def _bring_up(folder: Folder, start_lock: int) -> None:
    """Wait until the server is ready; while it has no keeper, give it one."""
    launched = False
    notice = time.monotonic() + _NOTICE_SECONDS
    while True:
        keeper_lock = _try_lock(folder.data / "keeper.lock")
        if keeper_lock is not None:
            try:
                if launched:
                    reason = data_folder.last_line(folder.log)
                    raise EmbeddedError(f"PostgreSQL did not start: {reason}; see {folder.log}")
                programs = binaries.find(folder.bin_dir)
                data_folder.make_cluster(folder, programs, start_lock)
                _spawn_keeper(folder, programs, keeper_lock)
            finally:
                os.close(keeper_lock)
            launched = True
        if data_folder.is_ready(folder):
            return
        if time.monotonic() > notice:
            _warn(
                "waiting for PostgreSQL",
                says=data_folder.last_line(folder.log),
                log=str(folder.log),
            )
            notice += 6 * _NOTICE_SECONDS
        time.sleep(0.002)


def _warn(event: str, **facts: str) -> None:
    # Only here: `skipmq serve` starts the server before it imports what logs.
    import structlog  # noqa: PLC0415

    structlog.get_logger().warning(event, **facts)


def _spawn_keeper(folder: Folder, programs: Programs, keeper_lock: int) -> None:
    """Start the keeper and let it inherit the lock that says that there is one."""
    account = programs.account
    keeper.stop_orphan(folder.cluster, folder.sockets)
    data_folder.make_private(folder.sockets, account)
    settings = data_folder.write_settings(folder)
    command = [str(programs.folder / "postgres"), "-D", str(folder.cluster)]
    command += ["-k", str(folder.sockets), "-p", "5432"]
    command += ["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"]
    command += ["-c", f"config_file={settings}"]
    orders = keeper.Orders(
        command=command,
        uid=account.uid if account else None,
        gid=account.gid if account else None,
        data=str(folder.data),
        cluster=str(folder.cluster),
        sockets=str(folder.sockets),
        ephemeral=folder.ephemeral,
        keeper_lock=keeper_lock,
    )
    with data_folder.opened_log(folder.log) as output:
        begun = subprocess.run(
            [sys.executable, "-I", "-S", keeper.__file__, json.dumps(orders)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(keeper_lock,),
            start_new_session=True,
            cwd="/",
            check=False,
        )
    if begun.returncode:
        raise EmbeddedError(
            f"the keeper did not start: {data_folder.last_line(folder.log)}; see {folder.log}"
        )
