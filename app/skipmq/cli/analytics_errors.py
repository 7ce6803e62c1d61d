"""What a command on the history says when it cannot work: one line, and what to do."""

import re
import subprocess
from collections.abc import Callable
from functools import wraps
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

import click
import psycopg

from skipmq import config

_OLDEST_JAVA, _OLDEST_SPARK = 17, (4, 2)
_INSTALL = "pip install 'skipmq[analytics]'"
_JAVA = f"Spark needs Java {_OLDEST_JAVA} or newer: apt-get install default-jre-headless"
# What the parts of the analytics refuse, by name, since PySpark may be missing.
_OURS = {"LakeError", "ReplayError", "AuditError"}
_NOT_UNDERSTOOD = {"AnalysisException", "ParseException"}
# What PostgreSQL says, in the midst of what Java and the Python of a task say of it.
_DATABASE = re.compile(r"(?:PSQLException|psycopg\.[\w.]*Error|the operation): ([^\n]+)")
_CAUSE = re.compile(r"^(?:Caused by: |: )?[\w.$]+(?:Exception|Error): ([^\n]+)", re.MULTILINE)
# What the Python lacks that Spark starts beside its executors.
_PYTHON = re.compile(
    r"No module named '(?:skipmq|pyarrow|psycopg|pyspark)\b[^\n]*|\[PYTHON_VERSION_MISMATCH\][^\n]*"
    r'|Cannot run program "[^"]*python[^"]*"'
)


def installed(master: str) -> None:
    """Raise click.ClickException, with the remedy, when PySpark or Java is missing or too old."""
    if find_spec("pyspark") is None or find_spec("pyarrow") is None:
        raise click.ClickException(f"this needs PySpark: {_INSTALL}")
    version = metadata.version("pyspark")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_SPARK:
        wanted = ".".join(map(str, _OLDEST_SPARK))
        raise click.ClickException(
            f"this needs PySpark {wanted} or newer, not {version}: {_INSTALL}"
        )
    if master.startswith("sc:"):
        return
    home = config.java_home()
    program = Path(home) / "bin" / "java" if home else which("java")
    try:
        done = subprocess.run(
            [program or "java", "-version"], capture_output=True, text=True, check=False
        )
    except OSError as error:
        where = f"; JAVA_HOME is {home}, where none is: correct or unset it" if home else ""
        raise click.ClickException(_JAVA + where) from error
    found = re.search(r'version "(?:1\.)?(\d+)', done.stderr + done.stdout)
    if found and int(found[1]) < _OLDEST_JAVA:
        raise click.ClickException(f"{_JAVA}; {program} is Java {found[1]}")


def telling(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn what Spark and the parts of the analytics refuse into one line."""

    @wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (click.ClickException, click.Abort, click.exceptions.Exit):
            raise
        except Exception as error:
            if reason := _reason(error):
                raise click.ClickException(reason) from error
            raise

    return wrapped


def _reason(error: Exception) -> str | None:
    """Return what to tell of an error that the user can mend."""
    name, text = type(error).__name__, str(error).strip()
    if name in _OURS:
        return text
    if isinstance(error, psycopg.errors.InsufficientPrivilege | psycopg.errors.UndefinedTable):
        return None
    if isinstance(error, psycopg.ProgrammingError | psycopg.DataError):
        return f"PostgreSQL does not understand this: {text.splitlines()[0]}"
    if isinstance(error, OSError):
        place = f" with {error.filename}: name another path, or correct this one"
        return f"{error.strerror}{place}" if error.filename else text
    if type(error).__module__.startswith(("pyspark.", "py4j.")):
        return _of_spark(name, text)
    return None


def _of_spark(name: str, text: str) -> str:
    if "OutOfMemoryError" in text:
        return (
            "Java had not enough memory: give it more with"
            " PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell'"
        )
    if "ClassNotFoundException: org.postgresql.Driver" in text:
        return (
            "Spark has no driver for PostgreSQL: give spark-submit"
            " --packages org.postgresql:postgresql:VERSION, or --jars FILE"
        )
    if lacking := _PYTHON.search(text):
        return (
            f"the Python of Spark's executors is no use: {lacking[0]}. Install skipmq[analytics] on"
            " every machine for the same Python, and name that with PYSPARK_PYTHON"
        )
    if said := _DATABASE.findall(text):
        return f"the database failed: {said[-1]}. Check it with `skipmq doctor`, and run this again"
    if name in _NOT_UNDERSTOOD:
        return f"Spark does not understand this: {text.splitlines()[0]}"
    causes = _CAUSE.findall(text)
    return f"Spark failed: {causes[-1] if causes else text.splitlines()[0]}"
