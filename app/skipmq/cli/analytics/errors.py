"""Checks of requirements and error messages of the analytics commands."""

import re
import subprocess
import sys
from collections.abc import Callable
from functools import wraps
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import click

from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.postgres.erasure import ConditionError
from skipmq.analytics.spark import environment

_MINIMUM_JAVA, _MINIMUM_SPARK = 17, (4, 2)
_COLOUR, _BRANCH = re.compile(r"\x1b\[\d*m"), re.compile(r"\n\s*↳")
DUCKDB = ("duckdb", "DuckDB")
_INSTALL = "pip install 'skipmq[analytics]'"
_JAVA = f"Spark needs Java {_MINIMUM_JAVA} or newer: apt-get install default-jre-headless"


def check_packages(*others: tuple[str, str]) -> None:
    """Raise click.ClickException if PySpark or another package is missing or too old.

    `others` are pairs of a module and the name of its product.
    """
    for module, product in (("pyspark", "PySpark"), ("pyarrow", "PySpark"), *others):
        if find_spec(module) is None:
            raise click.ClickException(f"this needs {product}: {_INSTALL}")
    version = metadata.version("pyspark")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _MINIMUM_SPARK:
        minimum = ".".join(map(str, _MINIMUM_SPARK))
        raise click.ClickException(
            f"this needs PySpark {minimum} or newer, not {version}: {_INSTALL}"
        )


def check_spark(master: str, *others: tuple[str, str]) -> None:
    """Raise click.ClickException if PySpark, Java or another package is missing or too old."""
    check_packages(*others)
    if master.startswith("sc:"):
        return
    home = environment.java_home()
    program = Path(home) / "bin" / "java" if home else which("java")
    try:
        completed = subprocess.run(
            [program or "java", "-version"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        where = f"; JAVA_HOME is {home} and has no Java: correct or unset it" if home else ""
        raise click.ClickException(_JAVA + where) from error
    version = re.search(r'version "(?:1\.)?(\d+)', completed.stderr + completed.stdout)
    if version and int(version[1]) < _MINIMUM_JAVA:
        raise click.ClickException(f"{_JAVA}; {program} is Java {version[1]}")


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors that the user can correct into a ClickException of one line."""

    @wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (AnalyticsError, ConditionError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            path = f": {error.filename}; correct the path or specify another"
            reason = f"{error.strerror}{path}" if error.filename else _store_reason(str(error))
            raise click.ClickException(reason) from error
        except Exception as error:
            if text := _explain(error):
                raise click.ClickException(text) from error
            raise

    return wrapped


def _store_reason(text: str) -> str:
    """Return the first and the last line of an object store's error, which is a tree of causes."""
    causes = [cause.strip() for cause in _BRANCH.split(_COLOUR.sub("", text)) if cause.strip()]
    if len(causes) < 2:  # noqa: PLR2004 - a single cause.
        return " ".join(text.split())
    message = re.search(r"<Message>(.*?)</Message>", causes[-1])
    last = " ".join((message[1] if message else causes[-1]).split())
    return (
        f"{causes[0]}: {last}. Check the address of the lake, and the region, the endpoint and the"
        " keys of its object store"
    )


def _explain(error: Exception) -> str | None:
    # PySpark is an extra: only if it was imported can the error be one of Spark's.
    if sys.modules.get("pyspark") is None:
        return None
    if type(error).__name__ in {"DeltaError", "TableNotFoundError", "SchemaMismatchError"}:
        return f"the lake failed: {str(error).strip().splitlines()[0]}"
    from skipmq.analytics.spark import spark_errors  # noqa: PLC0415 - as above.

    return spark_errors.explain(error)
