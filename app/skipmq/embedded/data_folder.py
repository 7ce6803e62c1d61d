"""The folder of an embedded PostgreSQL: where things lie in it, its settings, initdb."""

import contextlib
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from stat import S_ISDIR
from urllib.parse import quote

from skipmq.embedded import keeper
from skipmq.embedded.binaries import Account, EmbeddedError, Programs

ELSEWHERE = "choose another folder with SKIPMQ_DATA_DIR"
_LOCKS = ("start.lock", "users.lock", "keeper.lock")
# Stands in a folder that is removed with its last user, and never in another.
_THROW_AWAY = "throw-away"
_LOG_BYTES = 10_000_000
_SOCKET_PATH_BYTES = 100
_STATUS_LINE = 7

_SETTINGS = """\
# Written by SkipMQ at each start. Your own settings belong into local.conf next to this file.
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
_LASTING = "max_wal_size = 4GB\n"
_FLEETING = "max_wal_size = 1GB\nfsync = off\nfull_page_writes = off\n"


@dataclass(frozen=True, slots=True)
class Folder:
    """The data folder, and what was asked of it."""

    data: Path
    ephemeral: bool
    bin_dir: Path | None

    @property
    def cluster(self) -> Path:
        """The folder that PostgreSQL calls the data directory."""
        return self.data / "postgresql"

    @property
    def log(self) -> Path:
        """What PostgreSQL and its keeper say."""
        return self.data / "postgresql.log"

    @property
    def url(self) -> str:
        """The URL with which the owner connects."""
        return f"postgresql://postgres@/postgres?host={self.sockets}&port=5432"

    @property
    def sockets(self) -> Path:
        """The folder of the socket: its path fits a socket address and needs no quotes."""
        inside = str(self.data / "run")
        if quote(inside) == inside and len(inside) + len(keeper.SOCKET_NAME) < _SOCKET_PATH_BYTES:
            return Path(inside)
        digest = hashlib.blake2b(os.fsencode(self.data), digest_size=8).hexdigest()
        # Not tempfile's choice: all processes must agree whatever their TMPDIR.
        return Path("/tmp") / f"skipmq-{digest}"  # noqa: S108 (a private folder, checked below)


def check_nature(folder: Folder) -> None:
    """Never remove a folder that was not made for it, nor keep data in one that will be removed."""
    mark = folder.data / _THROW_AWAY
    if folder.ephemeral and not mark.exists():
        if {path.name for path in folder.data.iterdir()} - set(_LOCKS):
            raise EmbeddedError(
                f"{folder.data} is not empty and would be removed at the end;"
                " name an empty folder for a throw-away database"
            )
        mark.touch()
    if not folder.ephemeral and mark.exists():
        raise EmbeddedError(f"{folder.data} holds a throw-away database; {ELSEWHERE}")


@contextlib.contextmanager
def opened_log(path: Path) -> Iterator[int]:
    """Give the log to append to, started again when it has grown large."""
    if path.exists() and path.stat().st_size > _LOG_BYTES:
        path.replace(path.with_suffix(".log.old"))
    output = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        yield output
    finally:
        os.close(output)


def last_line(path: Path) -> str:
    """Return the last thing that the log complains of."""
    if not path.exists():
        return "nothing was logged"
    lines = path.read_bytes()[-8192:].decode(errors="replace").splitlines()
    worst = [line for line in lines if re.search("FATAL|PANIC|error:", line)]
    return (worst or lines or ["nothing was logged"])[-1]


def write_settings(folder: Folder) -> Path:
    """Write the file that PostgreSQL reads instead of its postgresql.conf; return its path."""
    own = folder.data / "local.conf"
    if not own.exists():
        own.write_text("# Your settings of this PostgreSQL; they win over skipmq.conf.\n")
        own.chmod(0o644)
    path = folder.data / "skipmq.conf"
    fresh = path.with_suffix(".conf.new")
    fresh.unlink(missing_ok=True)
    fresh.write_text(
        _SETTINGS
        + (_FLEETING if folder.ephemeral else _LASTING)
        + "include_if_exists = 'local.conf'\n"
    )
    fresh.chmod(0o644)
    fresh.replace(path)
    return path


def make_private(path: Path, account: Account | None) -> None:
    """Make a folder of the server's account alone, or check that it is one."""
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


def make_cluster(folder: Folder, programs: Programs, start_lock: int) -> None:
    """Run initdb in another folder and rename, so that half a cluster is never taken for one."""
    account = programs.account
    fresh = folder.data / "postgresql.new"
    if fresh.exists():
        shutil.rmtree(fresh)
    if folder.cluster.exists():
        _check_cluster(folder, programs)
        return
    make_private(fresh, account)
    command = [str(programs.folder / "initdb"), "-D", str(fresh), "-U", "postgres", "-A", "trust"]
    command += ["--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions"]
    # Trust is safe: the only way in is a socket in a folder that is the account's alone.
    made = subprocess.run(
        [*command, "--no-sync"] if folder.ephemeral else command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        cwd="/",
        env=keeper.ENVIRONMENT,
        # An initdb that outlives a killed starter keeps the next starter waiting.
        pass_fds=(start_lock,),
        user=account.uid if account else None,
        group=account.gid if account else None,
        extra_groups=[] if account else None,
    )
    if made.returncode:
        with opened_log(folder.log) as output:
            os.write(output, made.stdout + made.stderr)
        shutil.rmtree(fresh)
        raise EmbeddedError(f"initdb failed: {last_line(folder.log)}; see {folder.log}")
    fresh.rename(folder.cluster)
    data = os.open(folder.data, os.O_RDONLY)
    try:
        os.fsync(data)
    finally:
        os.close(data)


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
            f"{folder.cluster} was made by PostgreSQL {major} and this is {programs.version};"
            f" dump it with {major} and restore it here, or {ELSEWHERE}"
        )


def is_ready(folder: Folder) -> bool:
    """Tell whether the server accepts connections."""
    # A file left by a killed postmaster may say "ready", but then nobody answers.
    status = keeper.postmaster_file(folder.cluster)[_STATUS_LINE : _STATUS_LINE + 1]
    return [line.strip() for line in status] == ["ready"] and keeper.answers(folder.sockets)
