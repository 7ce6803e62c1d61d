"""The format `skipmq`, where PySpark looks for it: in modules whose names begin with pyspark_.

PySpark imports them all at a session's first source in Python, and none works when one cannot be
imported.
"""

from skipmq import extras

__all__ = ["DefaultSource"]

if extras.has_server():
    from skipmq.analytics.spark.spark_format import SkipMQ as DefaultSource
else:
    from pyspark.sql.datasource import DataSource

    class DefaultSource(DataSource):  # type: ignore[no-redef]
        """The source's place where only the client is installed."""

        @classmethod
        def name(cls) -> str:
            """Return the name for `format`."""
            return "skipmq"

        def __init__(self, options: dict[str, str]) -> None:
            """Raise MissingExtraError."""
            super().__init__(options)
            extras.require_server("Spark's format skipmq", "analytics")
