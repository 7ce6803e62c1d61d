"""A temporary server, of a copy of a template: a cluster that has what every start would make.

A template is made once for each build of PostgreSQL and each release, in the account's cache, by a
server of its own that stops cleanly; it is renamed into place when it is complete and on disk, and
never started afterwards. Without a place to keep it, initdb makes each temporary cluster.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from skipmq.database.embedded import binaries, server
from skipmq.database.embedded.binaries import EmbeddedError, Programs
from skipmq.database.embedded.server import Server

_PREFIX = "template-"
# Templates of other releases are removed when a new one is made, this time after their last use.
_KEPT_SECONDS = 30 * 86_400
# Nothing of a template is used before all of it is on disk.
_UNSAFE = "fsync = off\nfull_page_writes = off\n"


@dataclass(frozen=True, slots=True)
class Contents:
    """What a template has in addition to PostgreSQL's own: `install` puts it in, `key` names it."""

    key: str
    install: Callable[[str], None]


def start_ephemeral(*, contents: Contents | None = None) -> Server:
    """Start a server in a temporary folder, which is removed with its last user.

    With `contents` they are in its database, unless no template can be kept. Raises EmbeddedError.
    """
    template = None if contents is None else _template(contents)
    if template is not None:
        try:
            with locked(template.parent, fcntl.LOCK_SH):
                return _start(template)
        except (OSError, EmbeddedError):
            # It was removed or damaged meanwhile.
            remove(template)
    return _start(None)


def _start(template: Path | None) -> Server:
    data_dir = Path(tempfile.mkdtemp(prefix="skipmq-"))
    try:
        if os.geteuid() == 0:
            data_dir.chmod(0o711)
        return server.start(data_dir, ephemeral=True, template=template)
    except BaseException:
        shutil.rmtree(data_dir, ignore_errors=True)
        raise


def _template(contents: Contents) -> Path | None:
    """Return the template with these contents, made if it is missing; None where it cannot be."""
    try:
        programs = binaries.find(None)
        cache = _cache()
        if not cache.is_absolute():  # The account has no home.
            return None
        found = cache / f"{_PREFIX}{_digest(contents, programs)}"
        if found.exists():
            with contextlib.suppress(OSError):  # The cache may be read-only.
                os.utime(found)
            return found
        cache.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, parents=True, exist_ok=True)
        lock = server.lock(cache / "template.lock", fcntl.LOCK_EX)
        try:
            if not found.exists():  # Another process may have made it meanwhile.
                _make(found, contents)
        finally:
            os.close(lock)
    except (OSError, EmbeddedError):
        return None
    return found


def _cache() -> Path:
    is_root = os.geteuid() == 0
    return binaries.SYSTEM_FOLDER if is_root else platformdirs.user_cache_path("skipmq")


def _digest(contents: Contents, programs: Programs) -> str:
    """Return what names a template: all that a server of it depends on."""
    program = (programs.folder / "postgres").stat()
    account = programs.account.uid if programs.account else os.geteuid()
    build = (programs.version, program.st_size, program.st_mtime_ns, account, contents.key)
    return hashlib.blake2b(repr(build).encode(), digest_size=8).hexdigest()


def _make(template: Path, contents: Contents) -> None:
    """Make a template; one that was interrupted is carried on."""
    _remove_unused(template.parent)
    data_dir = template.with_suffix(".new")
    data_dir.mkdir(mode=0o711 if os.geteuid() == 0 else 0o700, exist_ok=True)
    (data_dir / "local.conf").write_text(_UNSAFE)
    with server.start(data_dir) as running:
        contents.install(running.url)
    # Its keeper holds this lock until PostgreSQL has stopped.
    os.close(server.lock(data_dir / "keeper.lock", fcntl.LOCK_EX))
    if (data_dir / "postgresql" / "postmaster.pid").exists():
        raise EmbeddedError(f"PostgreSQL did not stop in {data_dir}")
    os.sync()
    (data_dir / "postgresql").rename(template)
    shutil.rmtree(data_dir, ignore_errors=True)


def _remove_unused(cache: Path) -> None:
    for found in cache.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            if found.is_dir() and found.stat().st_mtime < time.time() - _KEPT_SECONDS:  # noqa: TID251
                remove(found)


def remove(template: Path) -> None:
    """Remove a template, unless one is being copied."""
    with contextlib.suppress(OSError), locked(template.parent, fcntl.LOCK_EX | fcntl.LOCK_NB):
        shutil.rmtree(template.rename(template.with_suffix(".old")))


@contextlib.contextmanager
def locked(cache: Path, kind: int) -> Iterator[None]:
    """Lock the folder of templates: shared by those that copy one, alone to remove one."""
    lock = os.open(cache, os.O_RDONLY)
    try:
        fcntl.flock(lock, kind)
        yield
    finally:
        os.close(lock)
