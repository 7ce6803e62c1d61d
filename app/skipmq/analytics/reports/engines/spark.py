"""Spark, as an engine of reports."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import pyarrow as pa
from pyspark.sql import DataFrame

from skipmq.analytics import reports
from skipmq.analytics.reports.engines import Parameter


class SparkEngine:
    """Computes reports with the session of the DataFrames that they read."""

    name = "spark"

    def query(
        self, report: str, tables: Mapping[str, DataFrame], parameters: Mapping[str, Parameter]
    ) -> DataFrame:
        """Return a report on these DataFrames."""
        return reports.query(report, tables, parameters)

    def filtered(self, relation: DataFrame, queues: Sequence[str]) -> DataFrame:
        """Return the rows of these queues; the source only reads those."""
        return relation.where(relation["queue"].isin(list(queues)))

    @contextmanager
    def kept(self, relation: DataFrame) -> Iterator[DataFrame]:
        """Store a DataFrame in memory and on disk during the block."""
        frame = relation.persist()
        try:
            # Its size is then known, so that Spark broadcasts a small one in joins.
            frame.count()
            yield frame
        finally:
            frame.unpersist()

    def rows(self, relation: DataFrame) -> pa.Table:
        """Compute a DataFrame."""
        return relation.toArrow()
