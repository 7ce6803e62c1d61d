"""On what the numbers were measured."""

import importlib.metadata
import platform
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil

import skipmq
from bench import programs
from bench.programs import Unavailable, told


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
    found = told(["git", "describe", "--always", "--dirty=+", "--exclude=*"], r"[0-9a-f]{7,}\+?")
    return found[:7] + "+" * found.endswith("+")


def versions() -> dict[str, str]:
    """Return the version of everything that took part, and why something could not."""
    found: dict[str, Callable[[], str]] = {
        "SkipMQ": lambda: skipmq.__version__,
        "Python": platform.python_version,
        "Granian": lambda: importlib.metadata.version("granian"),
        "PostgreSQL": lambda: told([programs.postgresql("postgres"), "--version"]),
        "pgbench": lambda: told([programs.postgresql("pgbench"), "--version"]),
        "wrk": lambda: told([programs.find("wrk"), "-v"], r"wrk \S+").removeprefix("wrk "),
        "PGMQ": programs.pgmq_version,
        "ElasticMQ": programs.elasticmq_version,
        "Java": lambda: told([programs.find("java"), "-version"]),
        "moto": lambda: importlib.metadata.version("moto"),
    }
    return {name: _version(look) for name, look in found.items()}


def _version(look: Callable[[], str]) -> str:
    try:
        return look()
    except (Unavailable, importlib.metadata.PackageNotFoundError) as error:
        return f"none ({error})"
