"""What Spark reports, in one line for the user."""

import re

from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

# What PostgreSQL says, within what Java and the Python of a task say of it.
_DATABASE = re.compile(r"(?:PSQLException|psycopg\.[\w.]*Error|the operation): ([^\n]+)")
_CAUSE = re.compile(r"^(?:Caused by: |: )?[\w.$]+(?:Exception|Error): ([^\n]+)", re.MULTILINE)
# What the Python lacks that Spark starts on its executors.
_PYTHON = re.compile(
    r"No module named '(?:skipmq|pyarrow|psycopg|pyspark)\b[^\n]*|\[PYTHON_VERSION_MISMATCH\][^\n]*"
    r'|Cannot run program "[^"]*python[^"]*"'
)
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
    for pattern, remedy in _REMEDIES.items():
        if pattern in text:
            return remedy
    if lacking := _PYTHON.search(text):
        return (
            f"the Python of Spark's executors cannot be used: {lacking[0]}. Install"
            " skipmq[analytics] on every machine for the same Python, and name that with"
            " PYSPARK_PYTHON"
        )
    if said := _DATABASE.findall(text):
        return f"the database failed: {said[-1]}. Check it with `skipmq doctor`, and run this again"
    if isinstance(error, AnalysisException):
        return f"Spark does not understand this: {text.splitlines()[0]}"
    causes = _CAUSE.findall(text)
    return f"Spark failed: {causes[-1] if causes else text.splitlines()[0]}"
