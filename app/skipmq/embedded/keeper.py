"""The keeper: the process that owns an embedded PostgreSQL and stops it after its last user.

It is run as a script with the standard library alone: it starts PostgreSQL as its child, starts it
again when it dies, and waits for the exclusive lock on `users.lock`, on which each user keeps a
shared one. The kernel drops a user's lock however the user ends, so the server ends with its users.
"""

import contextlib
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import NamedTuple

SOCKET_NAME = ".s.PGSQL.5432"
# PostgreSQL inherits nothing: variables such as PGPORT or LC_ALL would change what it does.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
# After kill -9 of the postmaster its last backends can hold the shared memory for a while.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, 1)
_PROVEN_SECONDS = 10


class Orders(NamedTuple):
    """What a keeper is to run, as JSON; `keeper_lock` is the descriptor of an inherited lock."""

    command: list[str]
    uid: int | None
    gid: int | None
    data: str
    cluster: str
    sockets: str
    ephemeral: bool
    keeper_lock: int


def postmaster_file(cluster: Path) -> list[str]:
    """Return the lines of postmaster.pid, none if there is no such file."""
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def answers(sockets: Path) -> bool:
    """Tell whether a postmaster listens in this folder, ready or not."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(sockets / SOCKET_NAME))
        except OSError:
            return False
    return True


def stop_orphan(cluster: Path, sockets: Path) -> None:
    """Stop the postmaster that a killed keeper left behind; it is not our child to watch."""
    while answers(sockets):
        # It answers, so the file is its own and the number cannot be another program's.
        if lines := postmaster_file(cluster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(lines[0]), signal.SIGINT)
        time.sleep(0.05)


def keep(orders: Orders) -> None:
    """Run PostgreSQL until nobody uses it or SIGTERM comes.

    Gives up when it has never run long and fails again and again: the log says why.
    """
    failures = 0
    proven = False
    while proven or failures < len(_PAUSES):
        stop_orphan(Path(orders.cluster), Path(orders.sockets))
        if _stop_requested():
            return
        # Nobody answers there, and postmaster.pid alone protects the data.
        (Path(orders.sockets) / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        started = time.monotonic()
        postgres = _start(orders)
        if _stop_requested_before_end_of(postgres):
            # A throw-away database needs no checkpoint.
            postgres.send_signal(signal.SIGQUIT if orders.ephemeral else signal.SIGINT)
            postgres.wait()
            return
        long = time.monotonic() - started > _PROVEN_SECONDS
        proven = proven or long
        failures = 1 if long else min(failures + 1, len(_PAUSES))
        _say(f"PostgreSQL ended with status {postgres.returncode}")
        time.sleep(_PAUSES[failures - 1])


def _start(orders: Orders) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        orders.command,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=_environment(orders),
        user=orders.uid,
        group=orders.gid,
        extra_groups=None if orders.uid is None else [],
    )


def _environment(orders: Orders) -> dict[str, str]:
    """Return what PostgreSQL inherits: the last postmaster's number too if a stranger has it now.

    PostgreSQL refuses to start while a process has the number in postmaster.pid. It can be a zombie
    where process 1 reaps none, or another program after a restart of a container. The number named
    here counts as stale, as pg_ctl uses it for its own parent. The file stays as it is: it names
    the shared memory, by which PostgreSQL notices backends that are not dead yet.
    """
    lines = postmaster_file(Path(orders.cluster))
    if lines and not _is_postgres(lines[0]):
        return {**ENVIRONMENT, "PG_GRANDPARENT_PID": lines[0]}
    return ENVIRONMENT


def _is_postgres(pid: str) -> bool:
    try:
        name, _, state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return False
    return state[0] not in "ZX" and name.endswith("(postgres")


def _stop_requested() -> bool:
    return signal.SIGTERM in signal.sigpending()


def _stop_requested_before_end_of(postgres: subprocess.Popen[bytes]) -> bool:
    """Wait for either; blocked signals stay pending, so none is lost between two waits."""
    while postgres.poll() is None:
        if signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGTERM:
            return True
    return False


def _await_last_user(users: int) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)
    os.kill(os.getpid(), signal.SIGTERM)


def _remove(orders: Orders) -> None:
    """Remove a throw-away folder; renamed first, so that a new start never meets half of it."""
    shutil.rmtree(orders.sockets, ignore_errors=True)
    folder = Path(orders.data)
    gone = folder.with_name(f"{folder.name}.gone-{os.getpid()}")
    try:
        folder.rename(gone)
    except OSError:
        gone = folder
    shutil.rmtree(gone, ignore_errors=True)


def _say(text: str) -> None:
    sys.stderr.write(f"skipmq keeper {os.getpid()}: {text}\n")
    sys.stderr.flush()


def main(text: str) -> None:
    """Detach from the starter and do what the orders say."""
    if os.fork():
        # The keeper is nobody's child: no starter has to wait for it.
        os._exit(0)
    orders = Orders(*json.loads(text))
    fcntl.fcntl(orders.keeper_lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    # Blocked for good: SIGINT and SIGHUP. PostgreSQL sets its own mask. A handler makes SIGCHLD
    # count on every system.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD}
    )
    users = os.open(Path(orders.data) / "users.lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    threading.Thread(target=_await_last_user, args=(users,), daemon=True).start()
    keep(orders)
    with contextlib.suppress(BlockingIOError):
        # Only with the users' lock in hand is the folder nobody's.
        if orders.ephemeral:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(orders)
    # In this order: who gets the users' lock finds the keeper's lock free.
    os.close(orders.keeper_lock)
    os.close(users)


if __name__ == "__main__":
    main(sys.argv[1])
