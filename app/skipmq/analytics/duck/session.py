"""A session of PySpark whose frames DuckDB computes, in this process.

PySpark's client of Spark Connect hands its calls to a channel of gRPC: here one that answers them
itself. There is no server, no port and no Java. What it does not know it refuses.
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
# Of DuckDB's HUGEINT, which sums of whole numbers are; Spark's are a bigint.
_HUGE = pa.decimal128(38, 0)


@dataclass(frozen=True, slots=True)
class Duck:
    """The session, and the connection whose tables and views are the session's."""

    spark: SparkSession
    connection: duckdb.DuckDBPyConnection


@contextmanager
def opened() -> Iterator[Duck]:
    """Give a session; PySpark's functions make columns for it, and for no other, meanwhile.

    What does not fit into memory goes to a folder that is removed at the end.
    """
    with (
        TemporaryDirectory(prefix="skipmq-report-") as folder,
        duckdb.connect(config={"temp_directory": folder}) as connection,
        config.spark_connect_mode(),
    ):
        connection.execute("set TimeZone = 'UTC'")
        connection.create_function(
            "json_schema", json_schema.of_texts, ["varchar"], "varchar",
            type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
        )  # fmt: skip
        # Typed as PySpark's own builder, of which only the base class is wanted.
        channel: Any = _Builder(_Answers(connection))
        spark: Any = ConnectSession.builder.channelBuilder(channel).create()
        try:
            yield Duck(spark, connection)
        except duckdb.IOException as error:
            raise LakeError(
                f"a file of the lake cannot be read: {_first_line(error)}:"
                " `skipmq analytics verify` says what is wrong, and exports it again with --repair"
            ) from error
        except duckdb.Error as error:
            raise AnalyticsError(f"DuckDB failed: {_first_line(error)}: --engine spark") from error
        finally:
            spark.stop()


def _first_line(error: Exception) -> str:
    return str(error).strip().partition("\n")[0]


class _Answers:
    """What a server of Spark Connect would answer."""

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._relations = Relations(connection)
        self.calls: Mapping[str, Callable[[Any], Any]] = {
            "AnalyzePlan": self._analyze,
            "Config": self._config,
            "ExecutePlan": self._execute,
            "ReleaseExecute": lambda request: proto.ReleaseExecuteResponse(**_of(request)),
            "ReleaseSession": lambda request: proto.ReleaseSessionResponse(**_of(request)),
        }

    def _config(self, request: proto.ConfigRequest) -> proto.ConfigResponse:
        # The client's own defaults.
        pairs = request.operation.get_with_default.pairs
        return proto.ConfigResponse(**_of(request), pairs=pairs)

    def _analyze(self, request: proto.AnalyzePlanRequest) -> proto.AnalyzePlanResponse:
        answer = proto.AnalyzePlanResponse(**_of(request))
        asked = str(request.WhichOneof("analyze"))
        if asked == "schema":
            table = self._computed(request.schema.plan.root, "limit 0")
            schema = pyspark_types_to_proto_types(from_arrow_schema(table.schema))
            answer.schema.schema.CopyFrom(schema)
        elif asked == "persist":
            self._relations.keep(request.persist.relation)
            answer.persist.SetInParent()
        elif asked == "unpersist":
            self._relations.release(request.unpersist.relation)
            answer.unpersist.SetInParent()
        else:
            raise EngineError(f"what is asked of a frame ({asked})")
        return answer

    def _execute(self, request: proto.ExecutePlanRequest) -> Iterator[proto.ExecutePlanResponse]:
        if not request.plan.HasField("root"):
            raise EngineError("a command")
        table = self._computed(request.plan.root)
        buffer = pa.BufferOutputStream()
        with pa.ipc.new_stream(buffer, table.schema) as stream:
            stream.write_batch(_batch(table))
        answer = proto.ExecutePlanResponse(**_of(request))
        answer.arrow_batch.row_count = table.num_rows
        answer.arrow_batch.data = buffer.getvalue().to_pybytes()
        yield answer
        done = proto.ExecutePlanResponse(**_of(request))
        done.result_complete.SetInParent()
        yield done

    def _computed(self, relation: relations_pb2.Relation, limit: str = "") -> pa.Table:
        query = self._relations.query(relation)
        table = self._connection.sql(f"from ({query.text}) {limit}").to_arrow_table()
        return table.cast(
            pa.schema(
                [
                    field.with_type(pa.int64()) if field.type == _HUGE else field
                    for field in table.schema
                ]
            )
        )


def _of(request: Any) -> dict[str, Any]:
    """Return what each answer has of its request."""
    return {"session_id": request.session_id, "server_side_session_id": "duckdb"}


def _batch(table: pa.Table) -> pa.RecordBatch:
    combined = table.combine_chunks().to_batches()
    return combined[0] if combined else pa.RecordBatch.from_pylist([], table.schema)


class _Builder(ChannelBuilder):
    def __init__(self, answers: _Answers) -> None:
        super().__init__()
        self._answers = answers

    def toChannel(self) -> grpc.Channel:  # noqa: N802 - PySpark's name.
        return _Channel(self._answers)


class _Channel(grpc.Channel):  # type: ignore[misc] # Has no types.
    """A channel of gRPC whose other end is in this process."""

    def __init__(self, answers: _Answers) -> None:
        self._answers = answers

    def unary_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def unary_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def stream_unary(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def stream_stream(self, method: str, *_: Any, **__: Any) -> Any:
        return self._call(method)

    def subscribe(self, *_: Any, **__: Any) -> None:
        """Tell nobody: it is always connected."""

    def unsubscribe(self, *_: Any) -> None:
        """As subscribe."""

    def close(self) -> None:
        """Do nothing: whoever opened the session closes it."""

    def _call(self, method: str) -> Callable[..., Any]:
        name = method.removeprefix(_SERVICE)

        def call(request: Any, **_: Any) -> Any:
            if name not in self._answers.calls:
                raise EngineError(f"the call {name}")
            return self._answers.calls[name](request)

        return call
