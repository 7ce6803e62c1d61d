"""The engines that compute reports: Spark, and DuckDB in this process."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame

from skipmq.analytics import reports

Relation = TypeVar("Relation")
Parameter: TypeAlias = datetime | int


class Engine(Protocol[Relation]):
    """Computes the queries of `reports`; a relation is a table or a query of the engine."""

    name: str

    def query(
        self, report: str, tables: Mapping[str, Relation], parameters: Mapping[str, Parameter]
    ) -> Relation:
        """Return a report on these tables, by the names that its query has for them."""

    def filtered(self, relation: Relation, queues: Sequence[str]) -> Relation:
        """Return the rows of these queues."""

    def kept(self, relation: Relation) -> AbstractContextManager[Relation]:
        """Compute a relation now, and store its rows during the block."""

    def rows(self, relation: Relation) -> pa.Table:
        """Compute a relation."""


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
