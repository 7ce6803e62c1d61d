"""The data folder of an embedded PostgreSQL: its layout, settings, initdb and status."""

import contextlib
import hashlib
import os
import re
import shutil
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from urllib.parse import quote

from skipmq.database.embedded import keeper
from skipmq.database.embedded.binaries import Account, EmbeddedError, Programs

ELSEWHERE = "choose another folder with SKIPMQ_DATA_DIR"
_LOCKS = ("start.lock", "users.lock", "keeper.lock")
# Marks a folder that is removed with its last user.
_EPHEMERAL_MARK = "throw-away"
_LOG_BYTES = 10_000_000
_SOCKET_PATH_BYTES = 100
_STATUS_LINE = 7
# The system identifier and the cluster's state in pg_control, and the states after a shutdown.
_CONTROL = struct.Struct("=Q8xi")
_SHUT_DOWN = (1, 2)

_SETTINGS = """\
# Written by SkipMQ at each start. Put your own settings into local.conf next to this file.
max_connections = 200
shared_buffers = 128MB
huge_pages = try
max_locks_per_transaction = 128
wal_compression = on
checkpoint_timeout = 15min
random_page_cost = 1.1
autovacuum_naptime = 10s
timezone = UTC
log_timezone = UTC
log_min_messages = warning
log_checkpoints = off
log_line_prefix = '%m [%p] '
"""
_PERSISTENT_SETTINGS = "max_wal_size = 4GB\n"
_EPHEMERAL_SETTINGS = "max_wal_size = 1GB\nfsync = off\nfull_page_writes = off\n"


@dataclass(frozen=True, slots=True)
class Folder:
    """A data folder and the options of its server."""

    data: Path
    ephemeral: bool
    bin_dir: Path | None
    # A cluster of the same programs and account, of which a new one is a copy.
    template: Path | None = None

    @property
    def cluster(self) -> Path:
        """PostgreSQL's data directory."""
        return self.data / "postgresql"

    @property
    def log(self) -> Path:
        """The log of PostgreSQL and its keeper."""
        return self.data / "postgresql.log"

    @property
    def url(self) -> str:
        """The connection URL of the owner."""
        return f"postgresql://postgres@/postgres?host={self.sockets}&port=5432"

    @property
    def sockets(self) -> Path:
        """The folder of the socket; its path fits a socket address and needs no quoting."""
        inside = str(self.data / "run")
        if quote(inside) == inside and len(inside) + len(keeper.SOCKET_NAME) < _SOCKET_PATH_BYTES:
            return Path(inside)
        digest = hashlib.blake2b(os.fsencode(self.data), digest_size=8).hexdigest()
        # Not tempfile.gettempdir(), because all processes must agree whatever their TMPDIR.
        return Path("/tmp") / f"skipmq-{digest}"  # noqa: S108 - make_private checks it.


def check_ephemeral(folder: Folder) -> None:
    """Mark an empty folder as ephemeral, or check that the mark matches; raise EmbeddedError."""
    mark = folder.data / _EPHEMERAL_MARK
    if folder.ephemeral and not mark.exists():
        if {path.name for path in folder.data.iterdir()} - set(_LOCKS):
            raise EmbeddedError(
                f"{folder.data} is not empty and would be removed at the end;"
                " name an empty folder for a temporary database"
            )
        mark.touch()
    if not folder.ephemeral and mark.exists():
        raise EmbeddedError(f"{folder.data} has a temporary database; {ELSEWHERE}")


@contextlib.contextmanager
def opened_log(path: Path) -> Iterator[int]:
    """Open the log for appending; rotate it first if it is large."""
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".log.old"))
    output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield output
    finally:
        os.close(output)


def last_line(path: Path) -> str:
    """Return the last error in the log, or its last line."""
    if not path.exists():
        return "the log is empty"
    lines = path.read_bytes()[-8192:].decode(errors="replace").splitlines()
    errors = [line for line in lines if re.search("FATAL|PANIC|error:", line)]
    return (errors or lines or ["the log is empty"])[-1]


def write_settings(folder: Folder) -> Path:
    """Write the configuration file that replaces postgresql.conf; return its path."""
    local = folder.data / "local.conf"
    if not local.exists():
        local.write_text("# Your settings of this PostgreSQL; they override skipmq.conf.\n")
        local.chmod(0o644)
    path = folder.data / "skipmq.conf"
    temporary = path.with_suffix(".conf.new")
    temporary.unlink(missing_ok=True)
    temporary.write_text(
        _SETTINGS
        + (_EPHEMERAL_SETTINGS if folder.ephemeral else _PERSISTENT_SETTINGS)
        + "include_if_exists = 'local.conf'\n"
    )
    temporary.chmod(0o644)
    temporary.replace(path)
    return path


def make_private(path: Path, account: Account | None) -> None:
    """Create a folder that only the server's account can access, or check an existing one."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    status = path.lstat()
    if account and S_ISDIR(status.st_mode) and status.st_uid == 0:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
        status = path.lstat()
    owner = account.uid if account else os.geteuid()
    if not S_ISDIR(status.st_mode) or status.st_uid != owner or status.st_mode & 0o077:
        raise EmbeddedError(
            f"{path} is not a private folder of account {owner}; remove it or {ELSEWHERE}"
        )


def create_cluster(folder: Folder, programs: Programs, start_lock: int) -> None:
    """Create the cluster, or check an existing one; raise EmbeddedError."""
    account = programs.account
    # Renamed when initdb has succeeded, so that a partial cluster is never used.
    temporary = folder.data / "postgresql.new"
    if temporary.exists():
        shutil.rmtree(temporary)
    if folder.cluster.exists():
        _check_cluster(folder, programs)
        return
    make_private(temporary, account)
    if folder.template is None:
        _initdb(folder, programs, temporary, start_lock)
    else:
        copy_cluster(folder.template, temporary)
    temporary.rename(folder.cluster)
    data = os.open(folder.data, os.O_RDONLY)
    try:
        os.fsync(data)
    finally:
        os.close(data)


def _initdb(folder: Folder, programs: Programs, temporary: Path, start_lock: int) -> None:
    account = programs.account
    command = [str(programs.folder / "initdb"), "-D", str(temporary)]
    command += ["-U", "postgres", "-A", "trust", "--no-instructions"]
    command += ["--encoding=UTF8", "--locale=C", "--data-checksums"]
    # Trust is safe, because only the server's account can access the folder of the socket.
    completed = subprocess.run(
        [*command, "--no-sync"] if folder.ephemeral else command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd="/",
        env=keeper.ENVIRONMENT,
        # If the starter is killed, the lock makes the next one wait until this initdb ends.
        pass_fds=(start_lock,),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if completed.returncode:
        with opened_log(folder.log) as output:
            os.write(output, completed.stdout + completed.stderr)
        shutil.rmtree(temporary)
        raise EmbeddedError(f"initdb failed: {last_line(folder.log)}; see {folder.log}")


def copy_cluster(template: Path, temporary: Path) -> None:
    """Copy a cluster with the owner and mode of each file."""
    completed = subprocess.run(
        # It takes a third of the time of shutil, which would take that from the imports next to it.
        ["cp", "-a", f"{template}/.", str(temporary)],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        env=keeper.ENVIRONMENT,
    )
    if completed.returncode:
        reason = completed.stderr.decode(errors="replace").strip()
        raise EmbeddedError(f"a new cluster cannot be copied: {reason}")


def _check_cluster(folder: Folder, programs: Programs) -> None:
    owner = programs.account.uid if programs.account else os.geteuid()
    found = folder.cluster.stat().st_uid
    if found != owner:
        raise EmbeddedError(
            f"{folder.cluster} belongs to account {found} and PostgreSQL would run as {owner};"
            f" run SkipMQ as account {found} or {ELSEWHERE}"
        )
    major = (folder.cluster / "PG_VERSION").read_text().strip()
    if major != programs.major:
        raise EmbeddedError(
            f"{folder.cluster} was created by PostgreSQL {major} and this is {programs.version};"
            f" dump it with {major} and restore it here, or {ELSEWHERE}"
        )


def is_ready(folder: Folder) -> bool:
    """Return whether the server accepts connections."""
    # The file of a killed postmaster may have the status "ready", and a child that it had just
    # forked may listen yet.
    lines = keeper.postmaster_file(folder.cluster)
    return (
        [line.strip() for line in lines[_STATUS_LINE : _STATUS_LINE + 1]] == ["ready"]
        and keeper.is_postgres(lines[0])
        and keeper.is_listening(folder.sockets)
    )


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a data folder.

    `version` is PostgreSQL's major version, None if the folder has no database; `url` is the
    owner's, None if no server runs; `was_shut_down` and the system identifier are None if the files
    cannot be read.
    """

    data_dir: Path
    version: str | None = None
    url: str | None = None
    was_shut_down: bool | None = None
    system: str | None = None

    def __str__(self) -> str:
        """Describe a server that is not running, and how to start it."""
        if self.version is None:
            return f"no database in {self.data_dir} yet: `skipmq serve` creates one"
        state = {
            True: "was shut down cleanly: `skipmq serve` starts it",
            False: "was not shut down cleanly: `skipmq serve` starts it and recovers",
            None: "cannot be inspected by this account: run `skipmq serve` as its owner",
        }[self.was_shut_down]
        return f"PostgreSQL {self.version} in {self.data_dir} is not running and {state}"


def status(data_dir: Path) -> Status:
    """Return the status of a folder, without starting a server or changing a file."""
    folder = Folder(data_dir.expanduser().resolve(), ephemeral=False, bin_dir=None)
    try:
        version = (folder.cluster / "PG_VERSION").read_text().strip()
        control = (folder.cluster / "global" / "pg_control").read_bytes()
        system, state = _CONTROL.unpack_from(control)
        if is_ready(folder):
            return Status(folder.data, version, folder.url, system=str(system))
    except FileNotFoundError:
        return Status(folder.data)
    except PermissionError:
        return Status(folder.data, "of another account")
    was_shut_down = state in _SHUT_DOWN
    return Status(folder.data, version, was_shut_down=was_shut_down, system=str(system))
