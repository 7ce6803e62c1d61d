"""The engines that compute reports: Spark, and DuckDB in this process."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Protocol, TypeAlias, TypeVar

import pyarrow as pa

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
