"""DuckDB in this process, as an engine of reports on a lake in a local folder."""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cache, lru_cache, partial
from itertools import chain, count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import duckdb
import msgspec
import pyarrow as pa
import sqlglot
from duckdb.func import FunctionNullHandling, PythonUDFType
from sqlglot import exp

from skipmq.analytics import queue_settings, reports
from skipmq.analytics.columns import HISTORY, PARTITION
from skipmq.analytics.delta import SCHEMA, Table
from skipmq.analytics.errors import AnalyticsError, LakeError, first_line
from skipmq.analytics.lake import stored_rows
from skipmq.analytics.lake.table_files import File
from skipmq.analytics.reports import bodies
from skipmq.analytics.reports.engines import Parameter
from skipmq.analytics.reports.period import settled_before
from skipmq.protocol.identity import QueueName

# Functions of Spark that sqlglot does not translate.
_MACROS = (
    "get(list, position) as list[position + 1]",
    # Variants are only used for their schema.
    "schema_of_variant(schema) as schema",
    "timestamp_micros(micros) as make_timestamptz(micros)",
)
# Before all messages.
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
# The Arrow type of DuckDB's HUGEINT, the type of integer sums, which are bigint in Spark.
_HUGEINT = pa.decimal128(38, 0)


class DuckEngine:
    """Computes reports with a connection of DuckDB; relations are names of its tables and views."""

    name = "duckdb"

    def __init__(self, connection: duckdb.DuckDBPyConnection) -> None:
        self._connection = connection
        self._numbers = count()
        # The files that views read, by the table.
        self._read: list[tuple[Table, Sequence[File]]] = []
        connection.execute("set TimeZone = 'UTC'")
        for macro in _MACROS:
            connection.execute(f"create temp macro {macro}")
        connection.create_function(
            "try_parse_json", _schemas, ["varchar"], "varchar",
            type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
        )  # fmt: skip

    def history(
        self,
        table: Table,
        since: datetime,
        queues: Sequence[str] = (),
        *,
        as_of: datetime | None = None,
    ) -> str:
        """Return the messages settled since a time in a lake, the same rows as Spark reads.

        With `as_of`, those that were sent and settled after it are left out.
        """
        until = settled_before(None, as_of)
        folder = table.url.removeprefix("file://")
        found = table.within(since, queues, until, as_of)
        self._read.append((table, found))
        paths = [f"{folder}/{file.path}" for file in found]
        self._connection.register("nothing", SCHEMA.empty_table())
        # The empty table determines the types of columns that no file has.
        files = f" union all by name from {_parquet(paths)}" if paths else ""
        names = ", ".join(HISTORY.names)
        conditions = [f"settled_at >= '{since.isoformat()}'"]
        if until and as_of:
            conditions += [
                f"settled_at < '{until.isoformat()}'",
                f"least(settled_at, sent_at) < '{as_of.isoformat()}'",
            ]
        return self._view(
            f"select * replace ({PARTITION} as partition) from"
            f" (select {names} from (from nothing{files})) where {' and '.join(conditions)}"
        )

    def history_of(
        self, table: Table, queue: QueueName, *, since: datetime | None, until: datetime | None
    ) -> str:
        """Return the messages of a queue in a lake settled from `since` to before `until`."""
        history = self.history(table, since or _FIRST, [queue.name])
        place = _list([queue.account, queue.region, queue.name])
        before = f" and settled_at < '{until.isoformat()}'" if until else ""
        return self._view(f"from {history} where [account, region, queue] = {place}{before}")

    def queues(self, settings: pa.Table) -> str:
        """Return the queue settings that reports use."""
        self._connection.register("queues", settings.select(queue_settings.TIMEOUTS))
        return "queues"

    def query(
        self, report: str, tables: Mapping[str, str], parameters: Mapping[str, Parameter]
    ) -> str:
        """Return a report on these tables."""
        return self._view(translated(reports.definition(report), tables, parameters))

    def with_bodies(self, relation: str, schema: str) -> str:
        """Return a queue's history with the body as a struct, by a schema such as the queue's.

        The column `unfit` has the text of a body that does not fit, which is then null. Raises
        body_schemas.SchemaError.
        """
        name = f"bodies_{next(self._numbers)}"
        made = pa.schema([("made", bodies.columns(schema))])
        (type_,) = self._connection.from_arrow(made.empty_table()).types
        self._connection.create_function(
            name, partial(bodies.rows, schema), ["varchar"], type_,
            type=PythonUDFType.ARROW, null_handling=FunctionNullHandling.SPECIAL,
        )  # fmt: skip
        return self._view(
            "select * exclude (made) replace (made.body as body), made.unfit"
            f" from (select *, {name}(body) as made from {relation})"
        )

    def filtered(self, relation: str, queues: Sequence[str]) -> str:
        """Return the rows of these queues, of which only the files are read."""
        return self._view(f"from {relation} where list_contains({_list(queues)}, queue)")

    @contextmanager
    def kept(self, relation: str) -> Iterator[str]:
        """Store a relation in a temporary table during the block."""
        table = f"kept_{relation}"
        self._connection.execute(f"create temp table {table} as from {relation}")
        yield table
        self._connection.execute(f"drop table {table}")

    def write(self, relation: str, file: Path) -> tuple[int, int]:
        """Write a relation with bodies as Parquet; return its rows, and those that do not fit."""
        self._connection.sql(f"from {relation}").write_parquet(str(file), compression="zstd")
        written = self._connection.read_parquet(str(file)).aggregate("count(*), count(unfit)")
        rows, unfit = written.fetchall()[0]
        return rows, unfit

    def rows(self, relation: str) -> pa.Table:
        """Compute a relation; its types are those of Spark."""
        table = self._connection.sql(f"from {relation}").to_arrow_table()
        return table.cast(
            pa.schema(
                [
                    field.with_type(pa.int64()) if field.type == _HUGEINT else field
                    for field in table.schema
                ]
            )
        )

    def explained(self, error: duckdb.Error) -> AnalyticsError:
        """Return the error with the damaged file that it is about, if there is one.

        Reads the files again, as DuckDB does not name a file in all its errors.
        """
        is_known = isinstance(error, duckdb.OutOfMemoryException)
        for table, files in () if is_known else self._read:
            damaged = chain.from_iterable(stored_rows.damage(table, files).values())
            for problem in chain(damaged, _unreadable(table, files)):
                return LakeError(
                    f"{problem}: check the lake with `skipmq analytics verify --deep`, and export"
                    " it again with --repair"
                )
        return AnalyticsError(f"DuckDB failed: {first_line(error)}: use --engine spark")

    def _view(self, query: str) -> str:
        view = f"relation_{next(self._numbers)}"
        self._connection.execute(f"create temp view {view} as {query}")
        return view


def translated(query: str, tables: Mapping[str, str], parameters: Mapping[str, Parameter]) -> str:
    """Translate a query from Spark's SQL to DuckDB's, with tables and parameters filled in.

    Raises sqlglot.errors.UnsupportedError for what it knows to be missing in DuckDB.
    """
    tree = exp.replace_tables(_parsed(query), tables, dialect="spark")
    tree = exp.replace_placeholders(tree, copy=False, **parameters)
    text: str = tree.sql(
        "duckdb", comments=False, unsupported_level=sqlglot.ErrorLevel.RAISE, copy=False
    )
    return text


@cache
def _parsed(query: str) -> exp.Expression:
    return sqlglot.parse_one(query, read="spark").transform(_rewritten, copy=False)


def _rewritten(node: exp.Expression) -> exp.Expression | None:
    """Rewrite what sqlglot leaves as it is in Spark."""
    if isinstance(node, exp.Hint):
        return None
    if isinstance(node, exp.RegexpReplace):
        # Java refers to a group by $1.
        text = node.args["replacement"].name.replace("$", "\\")
        node.set("replacement", exp.Literal.string(text))
    if isinstance(node, exp.FromJson):
        json = exp.TryCast(this=node.this, to=exp.DataType.build("json"))
        kind = exp.DataType.build(node.args["expression"].name, dialect="spark")
        return exp.TryCast(this=json, to=kind)
    return node


@contextmanager
def opened() -> Iterator[DuckEngine]:
    """Yield an engine; data that does not fit into memory is spilled to a temporary folder.

    Raises LakeError for a damaged file of the lake, AnalyticsError for other errors of DuckDB.
    """
    with (
        TemporaryDirectory(prefix="skipmq-report-") as folder,
        duckdb.connect(config={"temp_directory": folder}) as connection,
    ):
        engine = DuckEngine(connection)
        try:
            yield engine
        except duckdb.Error as error:
            raise engine.explained(error) from error


def _unreadable(table: Table, files: Sequence[File]) -> Iterator[str]:
    for file in files:
        path = f"{table.url}/{file.path}"
        query = f"select bit_xor(hash(row)) from {_parquet([path.removeprefix('file://')])} row"
        try:
            # An error may have ended the connection.
            with duckdb.connect() as connection:
                connection.execute(query)
        except duckdb.Error as error:
            yield f"{path} cannot be read: {first_line(error)}"


def _parquet(paths: Sequence[str]) -> str:
    return (
        f"read_parquet({_list(paths)}, union_by_name = true, hive_partitioning = true,"
        " hive_types = {'day': date, 'queue': varchar})"
    )


def _list(texts: Sequence[str]) -> str:
    text: str = exp.convert(list(texts)).sql("duckdb")
    return text


# The name of a type; a list with the element type of an array; the fields of an object.
_Type: TypeAlias = "str | list[_Type] | dict[str, _Type]"
_NAMES = {type(None): "VOID", bool: "BOOLEAN", int: "DOUBLE", float: "DOUBLE", str: "STRING"}
_decode = msgspec.json.Decoder().decode


def _schemas(texts: pa.ChunkedArray) -> pa.Array:
    return pa.array(map(_schema, texts.to_pylist()), pa.string())


def _schema(text: str | None) -> str | None:
    if text is None:
        return None
    try:
        return _printed(_decode(text))
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return None


def _printed(value: Any) -> str:
    # A hot path, which runs for each row: elements of one type are not merged.
    if name := _NAMES.get(type(value)):
        return name
    if type(value) is dict:
        fields = [f"{_key(key)}: {_printed(each)}" for key, each in sorted(value.items())]
        return f"OBJECT<{', '.join(fields)}>"
    types = {_printed(each) for each in value}
    return f"ARRAY<{types.pop() if len(types) == 1 else _formatted(_type(value)[0])}>"


@lru_cache(10_000)
def _key(key: str) -> str:
    return key if re.fullmatch("[a-zA-Z_][a-zA-Z0-9_]*", key) else f"`{key.replace('`', '``')}`"


def _type(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _type(each) for key, each in value.items()}
    if isinstance(value, list):
        merged: _Type = "VOID"
        for each in value:
            merged = _merged(merged, _type(each))
        return [merged]
    return _NAMES[type(value)]


def _merged(one: _Type, other: _Type) -> _Type:
    """Return the common type of array elements."""
    if other in (one, "VOID"):
        return one
    if one == "VOID":
        return other
    if isinstance(one, dict) and isinstance(other, dict):
        return {k: _merged(one.get(k, "VOID"), other.get(k, "VOID")) for k in {**one, **other}}
    if isinstance(one, list) and isinstance(other, list):
        return [_merged(one[0], other[0])]
    return "VARIANT"


def _formatted(schema: _Type) -> str:
    if isinstance(schema, dict):
        fields = [f"{_key(key)}: {_formatted(each)}" for key, each in sorted(schema.items())]
        return f"OBJECT<{', '.join(fields)}>"
    return f"ARRAY<{_formatted(schema[0])}>" if isinstance(schema, list) else schema
