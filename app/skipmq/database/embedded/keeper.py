"""The keeper: the parent process of an embedded PostgreSQL, which stops it after its last user.

It runs as a script and imports the standard library only. It starts PostgreSQL as its child,
restarts it when it dies, and waits for an exclusive lock on `users.lock`, on which each user holds
a shared lock. The kernel releases a user's lock however the user ends, so the server always stops.
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
# PostgreSQL must not inherit variables such as PGPORT or LC_ALL.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
# After kill -9 of the postmaster its last backends can hold the shared memory for a while.
_RESTART_DELAYS = (0.05, 0.1, 0.2, 0.4, 0.8, 1)
_STABLE_SECONDS = 10


class Parameters(NamedTuple):
    """The parameters of a keeper, passed as JSON; `keeper_lock` is an inherited descriptor."""

    command: list[str]
    uid: int | None
    gid: int | None
    data: str
    cluster: str
    sockets: str
    ephemeral: bool
    keeper_lock: int


def postmaster_file(cluster: Path) -> list[str]:
    """Return the lines of postmaster.pid, or an empty list without such a file."""
    try:
        return (cluster / "postmaster.pid").read_text().splitlines()
    except FileNotFoundError:
        return []


def is_listening(sockets: Path) -> bool:
    """Return whether a postmaster listens in this folder, ready or not."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.connect(str(sockets / SOCKET_NAME))
        except OSError:
            return False
    return True


def stop_orphan(cluster: Path, sockets: Path) -> None:
    """Stop a postmaster whose keeper was killed, and wait until it no longer listens."""
    while is_listening(sockets):
        # It listens, so the PID in the file is the postmaster's and was not reused.
        if lines := postmaster_file(cluster):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(lines[0]), signal.SIGINT)
        time.sleep(0.05)


def keep(parameters: Parameters) -> None:
    """Run PostgreSQL until it has no users or SIGTERM arrives, and restart it if it ends.

    Returns if it fails repeatedly without ever having run for _STABLE_SECONDS.
    """
    failures = 0
    was_stable = False
    while was_stable or failures < len(_RESTART_DELAYS):
        stop_orphan(Path(parameters.cluster), Path(parameters.sockets))
        if _stop_requested():
            return
        # No postmaster listens on the socket, and postmaster.pid protects the data.
        (Path(parameters.sockets) / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)
        started = time.monotonic()
        postgres = _start(parameters)
        if _stop_requested_before_end_of(postgres):
            # A temporary database needs no checkpoint.
            postgres.send_signal(signal.SIGQUIT if parameters.ephemeral else signal.SIGINT)
            postgres.wait()
            return
        is_stable = time.monotonic() - started > _STABLE_SECONDS
        was_stable = was_stable or is_stable
        failures = 1 if is_stable else min(failures + 1, len(_RESTART_DELAYS))
        _log(f"PostgreSQL ended with status {postgres.returncode}")
        time.sleep(_RESTART_DELAYS[failures - 1])


def _start(parameters: Parameters) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        parameters.command,
        stdin=subprocess.DEVNULL,
        cwd="/",
        env=_environment(parameters),
        user=parameters.uid,
        group=parameters.gid,
        extra_groups=None if parameters.uid is None else [],
    )


def _environment(parameters: Parameters) -> dict[str, str]:
    """Return PostgreSQL's environment; mark a reused PID in postmaster.pid as stale.

    PostgreSQL refuses to start while a process has the PID in postmaster.pid. That may be a zombie
    that PID 1 does not reap, or another program after a restart of a container. PostgreSQL ignores
    the PID in PG_GRANDPARENT_PID, which pg_ctl sets to that of its parent. The file must stay: it
    names the shared memory, by which PostgreSQL detects backends that still run.
    """
    lines = postmaster_file(Path(parameters.cluster))
    if lines and not is_postgres(lines[0]):
        return {**ENVIRONMENT, "PG_GRANDPARENT_PID": lines[0]}
    return ENVIRONMENT


def is_postgres(pid: str) -> bool:
    """Return whether a process of PostgreSQL runs under this PID."""
    try:
        name, _, state = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")
    except OSError:
        return False
    return state[0] not in "ZX" and name.endswith("(postgres")


def _stop_requested() -> bool:
    return signal.SIGTERM in signal.sigpending()


def _stop_requested_before_end_of(postgres: subprocess.Popen[bytes]) -> bool:
    """Wait for either event; blocked signals stay pending between two calls of sigwait."""
    while postgres.poll() is None:
        if signal.sigwait({signal.SIGTERM, signal.SIGCHLD}) == signal.SIGTERM:
            return True
    return False


def _await_last_user(users: int) -> None:
    fcntl.flock(users, fcntl.LOCK_EX)
    os.kill(os.getpid(), signal.SIGTERM)


def _remove(parameters: Parameters) -> None:
    """Remove a temporary folder; rename it first, so that no starter finds it half removed."""
    shutil.rmtree(parameters.sockets, ignore_errors=True)
    folder = Path(parameters.data)
    renamed = folder.with_name(f"{folder.name}.gone-{os.getpid()}")
    try:
        folder.rename(renamed)
    except OSError:
        renamed = folder
    shutil.rmtree(renamed, ignore_errors=True)


def _log(text: str) -> None:
    sys.stderr.write(f"skipmq keeper {os.getpid()}: {text}\n")
    sys.stderr.flush()


def main(text: str) -> None:
    """Detach from the starter and run the keeper with these parameters, in JSON."""
    if os.fork():
        # The keeper is reparented, so no starter has to reap it.
        os._exit(0)
    parameters = Parameters(*json.loads(text))
    fcntl.fcntl(parameters.keeper_lock, fcntl.F_SETFD, fcntl.FD_CLOEXEC)
    # SIGINT and SIGHUP stay blocked; PostgreSQL sets its own mask. Without a handler, SIGCHLD is
    # discarded on some systems.
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.pthread_sigmask(
        signal.SIG_BLOCK, {signal.SIGINT, signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD}
    )
    users = os.open(Path(parameters.data) / "users.lock", os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    threading.Thread(target=_await_last_user, args=(users,), daemon=True).start()
    keep(parameters)
    with contextlib.suppress(BlockingIOError):
        # The exclusive lock ensures that the folder has no users.
        if parameters.ephemeral:
            fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _remove(parameters)
    # In this order, so that a process that acquires users.lock finds keeper.lock free.
    os.close(parameters.keeper_lock)
    os.close(users)


if __name__ == "__main__":
    main(sys.argv[1])
