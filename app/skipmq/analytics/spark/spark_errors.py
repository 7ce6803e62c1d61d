"""Explanations of Spark's errors for the user, in one line."""

import re

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

_CAUSE = re.compile(r"^(?:Caused by: |: )?[\w.$]*(?:Exception|Error): ([^\n]+)", re.MULTILINE)
# Patterns and the explanations of their last matches.
_PATTERNS = {
    re.compile(r"(?:FILE_NOT_EXIST\]|\[PATH_NOT_FOUND\]).*?([\w/+:.=-]+\.parquet)", re.DOTALL): (
        "the file {} of the lake is missing: check the lake with `skipmq analytics verify`, and"
        " export it again with --repair"
    ),
    re.compile(r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE).*?([\w/+:.=%-]+\.parquet)", re.DOTALL): (
        "the file {} of the lake is damaged: check the lake with `skipmq analytics verify --deep`,"
        " and export it again with --repair"
    ),
    # PostgreSQL's message in a stack trace of Java or Python.
    re.compile(r"(?:PSQLException|psycopg\.[\w.]+|the operation): ([^\n]+)"): (
        "the database failed: {}. Check it with `skipmq doctor`, and run this again"
    ),
}
# Parts of Spark's messages, and their remedies.
_REMEDIES = {
    "OutOfMemoryError": (
        "Java ran out of memory: give it more with"
        " PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell'"
    ),
    "ClassNotFoundException: org.postgresql.Driver": (
        "Spark has no driver for PostgreSQL: run spark-submit with"
        " --packages org.postgresql:postgresql:VERSION, or --jars FILE"
    ),
}


def explain(error: Exception) -> str | None:
    """Return the reason and the remedy for an error of Spark, None for any other error."""
    if not isinstance(error, PySparkException | Py4JError):
        return None
    text = str(error).strip()
    if remedy := _remedy(text):
        return remedy
    if isinstance(error, AnalysisException):
        return f"Spark rejected the query: {text.splitlines()[0]}"
    causes = _CAUSE.findall(text)
    return f"Spark failed: {causes[-1] if causes else text.splitlines()[0]}"


def first_reason(text: str) -> str:
    """Return the reason of what a program of Spark's printed before it failed: the first error."""
    if remedy := _remedy(text):
        return remedy
    causes = _CAUSE.findall(text) or [line for line in reversed(text.splitlines()) if line.strip()]
    return f"Spark failed: {causes[0]}" if causes else "Spark failed"


def _remedy(text: str) -> str | None:
    for part, remedy in _REMEDIES.items():
        if part in text:
            return remedy
    for pattern, remedy in _PATTERNS.items():
        if found := pattern.findall(text):
            return remedy.format(found[-1])
    return None
