"""A PySpark session whose DataFrames DuckDB executes in this process.

PySpark's Spark Connect client sends its calls to a gRPC channel; the channel here handles them
itself, without a server, a port or Java. Unsupported features raise EngineError.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from tempfile import TemporaryDirectory
from typing import Any

import duckdb
import grpc
import pyarrow as pa
from duckdb.func import FunctionNullHandling, PythonUDFType
from pyspark.sql import SparkSession
from pyspark.sql.connect.client import ChannelBuilder
from pyspark.sql.connect.proto import base_pb2 as proto
from pyspark.sql.connect.proto import relations_pb2
from pyspark.sql.connect.session import SparkSession as ConnectSession
from pyspark.sql.connect.types import pyspark_types_to_proto_types
from pyspark.sql.pandas.types import from_arrow_schema

from skipmq import config
from skipmq.analytics.duck import json_schema
from skipmq.analytics.duck.relations import Relations
from skipmq.analytics.errors import AnalyticsError, EngineError, LakeError

_SERVICE = "/spark.connect.SparkConnectService/"
# The Arrow type of DuckDB's HUGEINT, the type of integer sums, which are bigint in Spark.
_HUGEINT = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class DuckSession:
    """A PySpark session, and the DuckDB connection that has its tables and views."""

    spark: SparkSession
    connection: duckdb.DuckDBPyConnection


@contextmanager
def opened() -> Iterator[DuckSession]:
    """Yield a session; during the block PySpark's functions create columns for it only.

    Data that does not fit into memory is spilled to a temporary folder. Raises LakeError if a file
    of the lake cannot be read, AnalyticsError for other errors of DuckDB.
    """
    with (
        TemporaryDirectory(prefix="skipmq-report-") as folder,
        duckdb.connect(config={"temp_directory": folder}) as connection,
        config.spark_connect_mode(),
    ):
        connection.execute("set TimeZone = 'UTC'")
        connection.create_function(
            "json_schema", json_schema.schemas, ["varchar"], "varchar",
            type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
        )  # fmt: skip
        # PySpark's annotation requires a subclass instead of the base class.
        channel: Any = _Builder(_Handlers(connection))
        spark: Any = ConnectSession.builder.channelBuilder(channel).create()
        try:
            yield DuckSession(spark, connection)
        except duckdb.IOException as error:
            raise LakeError(
                f"a file of the lake cannot be read: {_first_line(error)}: check the lake with"
                " `skipmq analytics verify`, and export it again with --repair"
            ) from error
        except duckdb.Error as error:
            raise AnalyticsError(
                f"DuckDB failed: {_first_line(error)}: use --engine spark"
            ) from error
        finally:
            spark.stop()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class _Handlers:
    """The methods of the Spark Connect service."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._relations = Relations(connection)
        self.methods: Mapping[str, Callable[[Any], Any]] = {
            "AnalyzePlan": self._analyze,
            "Config": self._config,
            "ExecutePlan": self._execute,
            "ReleaseExecute": lambda request: proto.ReleaseExecuteResponse(**_ids(request)),
            "ReleaseSession": lambda request: proto.ReleaseSessionResponse(**_ids(request)),
        }

    def _config(self, request: proto.ConfigRequest) -> proto.ConfigResponse:
        # Return the client's defaults.
        pairs = request.operation.get_with_default.pairs
        return proto.ConfigResponse(**_ids(request), pairs=pairs)

    def _analyze(self, request: proto.AnalyzePlanRequest) -> proto.AnalyzePlanResponse:
        response = proto.AnalyzePlanResponse(**_ids(request))
        operation = str(request.WhichOneof("analyze"))
        if operation == "schema":
            table = self._result(request.schema.plan.root, "limit 0")
            schema = pyspark_types_to_proto_types(from_arrow_schema(table.schema))
            response.schema.schema.CopyFrom(schema)
        elif operation == "persist":
            self._relations.persist(request.persist.relation)
            response.persist.SetInParent()
        elif operation == "unpersist":
            self._relations.unpersist(request.unpersist.relation)
            response.unpersist.SetInParent()
        else:
            raise EngineError(f"the analysis {operation}")
        return response

    def _execute(self, request: proto.ExecutePlanRequest) -> Iterator[proto.ExecutePlanResponse]:
        if not request.plan.HasField("root"):
            raise EngineError("commands")
        table = self._result(request.plan.root)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, table.schema) as stream:
            stream.write_batch(_batch(table))
        response = proto.ExecutePlanResponse(**_ids(request))
        response.arrow_batch.row_count = table.num_rows
        response.arrow_batch.data = buffer.getvalue().to_pybytes()
        yield response
        end = proto.ExecutePlanResponse(**_ids(request))
        end.result_complete.SetInParent()
        yield end

    def _result(self, relation: relations_pb2.Relation, limit: str = "") -> pa.Table:
        query = self._relations.query(relation)
        table = self._connection.sql(f"from ({query.text}) {limit}").to_arrow_table()
        return table.cast(
            pa.schema(
                [
                    field.with_type(pa.int64()) if field.type == _HUGEINT else field
                    for field in table.schema
                ]
            )
        )


def _ids(request: Any) -> dict[str, Any]:
    """Return the IDs that each response contains."""
    return {"session_id": request.session_id, "server_side_session_id": "duckdb"}


def _batch(table: pa.Table) -> pa.RecordBatch:
    combined = table.combine_chunks().to_batches()
    return combined[0] if combined else pa.RecordBatch.from_pylist([], table.schema)


class _Builder(ChannelBuilder):
    def __init__(self, handlers: _Handlers) -> None:
        super().__init__()
        self._handlers = handlers

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name.
        return _Channel(self._handlers)


class _Channel(grpc.Channel):  # type: ignore[misc] # Has no types.
    """A gRPC channel that handles calls in this process."""

    def __init__(self, handlers: _Handlers) -> None:
        self._handlers = handlers

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def subscribe(self, *_: Any, **__: Any) -> None:
        """Ignore the callback: the channel is always connected."""

    def unsubscribe(self, *_: Any) -> None:
        """Do nothing, like `subscribe`."""

    def close(self) -> None:
        """Do nothing: `opened` closes the connection."""

    def _call(self, method: str) -> Callable[..., Any]:
        name = method.removeprefix(_SERVICE)

        def call(request: Any, **_: Any) -> Any:
            if name not in self._handlers.methods:
                raise EngineError(f"the call {name}")
            return self._handlers.methods[name](request)

        return call
