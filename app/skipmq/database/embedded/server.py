"""Start, share and release an embedded PostgreSQL.

Every user of a folder holds a shared lock on `users.lock`; a keeper process (keeper.py) runs the
server and stops it when that lock is free. `start.lock` serializes starters.
"""

import contextlib
import fcntl
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import platformdirs

from skipmq.database.embedded import binaries, data_folder, keeper
from skipmq.database.embedded.binaries import EmbeddedError, Programs
from skipmq.database.embedded.data_folder import Folder
from skipmq.telemetry.logs import log

_NOTICE_SECONDS = 5


class Server:
    """A reference to an embedded PostgreSQL, which stops when all references are released.

    A process's references are released when it ends. A process forked from it holds them, too.
    """

    __slots__ = ("_folder", "_lock", "data_dir", "url")

    def __init__(self, folder: Folder, lock: int) -> None:
        self.data_dir = folder.data
        self.url = folder.url
        self._folder = folder
        self._lock: int | None = lock

    def release(self) -> None:
        """Release the server, which stops soon after if this was its last user."""
        lock, self._lock = self._lock, None
        if lock is None:
            return
        try:
            # If the keeper was killed, start another one, which stops the server.
            keeper_lock = _try_lock(self.data_dir / "keeper.lock")
            if keeper_lock is not None:
                try:
                    _spawn_keeper(self._folder, binaries.find(self._folder.bin_dir), keeper_lock)
                finally:
                    os.close(keeper_lock)
        except (OSError, EmbeddedError) as error:
            log.warning("the embedded PostgreSQL may not stop", reason=str(error))
        finally:
            os.close(lock)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def default_data_dir() -> Path:
    """Return the default data folder of this account."""
    return binaries.SYSTEM_FOLDER if os.geteuid() == 0 else platformdirs.user_data_path("skipmq")


def start(
    data_dir: Path,
    *,
    ephemeral: bool = False,
    bin_dir: Path | None = None,
    template: Path | None = None,
) -> Server:
    """Create, recover or join the server of a folder, and wait until it is ready.

    Any number of processes may do so concurrently. An ephemeral folder must be empty or not exist;
    it is removed with its last user. A new cluster is a copy of the `template`, if one is given,
    which must not be running. Raises EmbeddedError.
    """
    folder = Folder(data_dir.expanduser().resolve(), ephemeral, bin_dir, template)
    try:
        _check_reachable(folder.data)
        with contextlib.ExitStack() as starting:
            start_lock, users_lock = _enter(folder.data)
            starting.callback(os.close, start_lock)
            with contextlib.ExitStack() as using:
                using.callback(os.close, users_lock)
                data_folder.check_ephemeral(folder)
                _ensure_running(folder, start_lock)
                using.pop_all()
            return Server(folder, users_lock)
    except OSError as error:
        reason = f"{error.strerror}: {error.filename}" if error.filename else str(error)
        raise EmbeddedError(
            f"cannot keep PostgreSQL in {folder.data} ({reason}); {data_folder.ELSEWHERE}"
        ) from error


def _enter(data: Path) -> tuple[int, int]:
    """Acquire start.lock and users.lock of a folder that is not being removed."""
    while True:
        _make_folder(data)
        with contextlib.ExitStack() as stack, contextlib.suppress(FileNotFoundError):
            locks = []
            for name, kind in (("start.lock", fcntl.LOCK_EX), ("users.lock", fcntl.LOCK_SH)):
                # A keeper that is stopping holds users.lock until PostgreSQL is down.
                locks.append(lock(data / name, kind))
                stack.callback(os.close, locks[-1])
            start_lock, users_lock = locks
            if os.path.samestat(os.fstat(start_lock), (data / "start.lock").stat()) and (
                os.path.samestat(os.fstat(users_lock), (data / "users.lock").stat())
            ):
                stack.pop_all()
                return start_lock, users_lock


def _make_folder(path: Path) -> None:
    """Create a folder that the server's account can traverse, unless it exists."""
    path.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)


def lock(path: Path, kind: int) -> int:
    """Lock a file, created if it is missing; return its descriptor, whose end releases it."""
    lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, kind)
    except BaseException:
        os.close(lock)
        raise
    return lock


def _try_lock(path: Path) -> int | None:
    try:
        return lock(path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return None


def _check_reachable(data: Path) -> None:
    account = binaries.own_account()
    if account and (blocked := binaries.obstacle(data, account)):
        raise EmbeddedError(
            f"PostgreSQL cannot run as root, and the account that runs it cannot enter {blocked};"
            f" {data_folder.ELSEWHERE}, or run: chmod o+x {blocked}"
        )


def _ensure_running(folder: Folder, start_lock: int) -> None:
    """Start a keeper unless one runs, and wait until the server is ready."""
    launched = False
    notice_at = time.monotonic() + _NOTICE_SECONDS
    while True:
        keeper_lock = _try_lock(folder.data / "keeper.lock")
        if keeper_lock is not None:
            try:
                if launched:
                    reason = data_folder.last_line(folder.log)
                    raise EmbeddedError(f"PostgreSQL did not start: {reason}; see {folder.log}")
                programs = binaries.find(folder.bin_dir)
                data_folder.create_cluster(folder, programs, start_lock)
                _spawn_keeper(folder, programs, keeper_lock)
            finally:
                os.close(keeper_lock)
            launched = True
        if data_folder.is_ready(folder):
            return
        if time.monotonic() > notice_at:
            last_line = data_folder.last_line(folder.log)
            log.warning("waiting for PostgreSQL", last_line=last_line, log=str(folder.log))
            notice_at += 6 * _NOTICE_SECONDS
        time.sleep(0.002)


def _spawn_keeper(folder: Folder, programs: Programs, keeper_lock: int) -> None:
    """Start the keeper, which inherits keeper.lock."""
    account = programs.account
    keeper.stop_orphan(folder.cluster, folder.sockets)
    data_folder.make_private(folder.sockets, account)
    settings = data_folder.write_settings(folder)
    command = [str(programs.folder / "postgres"), "-D", str(folder.cluster)]
    command += ["-k", str(folder.sockets), "-p", "5432"]
    command += ["-c", "listen_addresses=", "-c", "unix_socket_permissions=0700"]
    command += ["-c", f"config_file={settings}"]
    parameters = keeper.Parameters(
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
        completed = subprocess.run(
            [sys.executable, "-I", "-S", keeper.__file__, json.dumps(parameters)],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(keeper_lock,),
            start_new_session=True,
            cwd="/",
            check=False,
        )
    if completed.returncode:
        raise EmbeddedError(
            f"the keeper did not start: {data_folder.last_line(folder.log)}; see {folder.log}"
        )
