"""The source `skipmq`, where PySpark looks for it: in modules whose names begin with pyspark_."""

from skipmq.analytics.stream import SettledMessages as DefaultSource

__all__ = ["DefaultSource"]
