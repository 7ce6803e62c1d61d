"""What a command on the history says when it cannot work: one line, and what to do."""

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

from skipmq import config
from skipmq.analytics.errors import AnalyticsError
from skipmq.analytics.postgres.erasure import ConditionError

_OLDEST_JAVA, _OLDEST_SPARK = 17, (4, 2)
_INSTALL = "pip install 'skipmq[analytics]'"
_JAVA = f"Spark needs Java {_OLDEST_JAVA} or newer: apt-get install default-jre-headless"


def packages_installed(*others: tuple[str, str]) -> None:
    """Raise click.ClickException, with the remedy, when PySpark or another is missing or old.

    Of each other the module, and what people call it.
    """
    for module, product in (("pyspark", "PySpark"), ("pyarrow", "PySpark"), *others):
        if find_spec(module) is None:
            raise click.ClickException(f"this needs {product}: {_INSTALL}")
    version = metadata.version("pyspark")
    if tuple(map(int, re.findall(r"\d+", version)[:2])) < _OLDEST_SPARK:
        wanted = ".".join(map(str, _OLDEST_SPARK))
        raise click.ClickException(
            f"this needs PySpark {wanted} or newer, not {version}: {_INSTALL}"
        )


def installed(master: str) -> None:
    """Raise click.ClickException, with the remedy, when PySpark or Java is missing or too old."""
    packages_installed()
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


def one_line_errors(command: Callable[..., Any]) -> Callable[..., Any]:
    """Turn errors that the user can mend into a ClickException of one line."""

    @wraps(command)
    def wrapped(*args: Any, **options: Any) -> Any:
        try:
            return command(*args, **options)
        except (AnalyticsError, ConditionError) as error:
            raise click.ClickException(str(error)) from error
        except OSError as error:
            place = f" with {error.filename}: name another path, or correct this one"
            reason = f"{error.strerror}{place}" if error.filename else str(error).strip()
            raise click.ClickException(reason) from error
        except Exception as error:
            if text := _explain(error):
                raise click.ClickException(text) from error
            raise

    return wrapped


def _explain(error: Exception) -> str | None:
    # Spark's errors are there once PySpark is, which is an extra.
    if sys.modules.get("pyspark") is None:
        return None
    from skipmq.analytics import spark_errors  # noqa: PLC0415 - as above.

    return spark_errors.explain(error)
