"""What Spark reports, in one line for the user."""

import re

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

_CAUSE = re.compile(r"^(?:Caused by: |: )?[\w.$]+(?:Exception|Error): ([^\n]+)", re.MULTILINE)
# What is searched for, and what to say of what is found last.
_PATTERNS = {
    # What the Python lacks that Spark starts on its executors.
    re.compile(
        r"No module named '(?:skipmq|pyarrow|psycopg|pyspark)\b[^\n]*"
        r'|\[PYTHON_VERSION_MISMATCH\][^\n]*|Cannot run program "[^"]*python[^"]*"'
    ): (
        "the Python of Spark's executors cannot be used: {}. Install skipmq[analytics] on every"
        " machine for the same Python, and name that with PYSPARK_PYTHON"
    ),
    re.compile(r"(?:FILE_NOT_EXIST\]|\[PATH_NOT_FOUND\]).*?([\w/+:.=-]+\.parquet)", re.DOTALL): (
        "the file {} of the lake is not there: `skipmq analytics verify` says what is wrong, and"
        " exports it again with --repair"
    ),
    # What PostgreSQL says, within what Java and the Python of a task say of it.
    re.compile(r"(?:PSQLException|psycopg\.[\w.]*Error|the operation): ([^\n]+)"): (
        "the database failed: {}. Check it with `skipmq doctor`, and run this again"
    ),
}
# What Spark's text contains, and what to say of it.
_REMEDIES = {
    "OutOfMemoryError": (
        "Java had not enough memory: give it more with"
        " PYSPARK_SUBMIT_ARGS='--driver-memory 4g pyspark-shell'"
    ),
    "ClassNotFoundException: org.postgresql.Driver": (
        "Spark has no driver for PostgreSQL: give spark-submit"
        " --packages org.postgresql:postgresql:VERSION, or --jars FILE"
    ),
}


def explain(error: Exception) -> str | None:
    """Return what failed and what to do; None for what is no error of Spark."""
    if not isinstance(error, PySparkException | Py4JError):
        return None
    text = str(error).strip()
    for said, remedy in _REMEDIES.items():
        if said in text:
            return remedy
    for pattern, remedy in _PATTERNS.items():
        if found := pattern.findall(text):
            return remedy.format(found[-1])
    if isinstance(error, AnalysisException):
        return f"Spark does not understand this: {text.splitlines()[0]}"
    causes = _CAUSE.findall(text)
    return f"Spark failed: {causes[-1] if causes else text.splitlines()[0]}"
