"""Spark's format `skipmq`: the history to read and to follow, and queues to send to."""

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from skipmq.analytics.columns import HISTORY
from skipmq.analytics.spark.stream import Access, BatchReader, StreamReader
from skipmq.analytics.spark.writer import BatchWriter, StreamWriter


class SkipMQ(DataSource):
    """The history and the queues of a SkipMQ database."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `format`."""
        return "skipmq"

    def schema(self) -> StructType:
        """Return the columns of the history."""
        return HISTORY

    def reader(self, schema: StructType) -> DataSourceReader:  # noqa: ARG002 - fixed columns.
        """Return a reader of the whole history."""
        return BatchReader(Access.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802
        """Return a reader of the history as it grows."""
        return StreamReader(Access.from_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer that sends a DataFrame to a queue."""
        return BatchWriter(self.options, schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: StructType,
        overwrite: bool,
    ) -> DataSourceStreamWriter:
        """Return a writer that sends a stream's batches to a queue."""
        return StreamWriter(self.options, schema, overwrite=overwrite)
