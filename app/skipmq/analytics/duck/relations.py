"""Translation of Spark Connect's relations to DuckDB's SQL."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from duckdb import DuckDBPyConnection
from pyspark.sql.connect.proto import relations_pb2 as proto

from skipmq.analytics.duck.expressions import name, order, quoted, sql
from skipmq.analytics.errors import EngineError

_JOINS = {
    proto.Join.JOIN_TYPE_FULL_OUTER: "full",
    proto.Join.JOIN_TYPE_INNER: "inner",
    proto.Join.JOIN_TYPE_LEFT_OUTER: "left",
}


@dataclass(frozen=True, slots=True)
class Query:
    """A query and its column names."""

    text: str
    columns: Sequence[str]


class Relations:
    """Translates the relations of a connection, and stores those that are persisted."""

    def __init__(self, connection: DuckDBPyConnection) -> None:
        self._connection = connection
        self._persisted: dict[int, Query] = {}
        self._kinds: Mapping[str, Callable[[Any], Query]] = {
            "aggregate": self._aggregate,
            "deduplicate": self._distinct,
            "drop": self._drop,
            "fill_na": self._fill,
            "filter": self._filter,
            # Hints and partitioning do not apply to DuckDB.
            "hint": lambda hint: self.query(hint.input),
            "join": self._join,
            "project": self._project,
            "read": self._read,
            "repartition": lambda repartition: self.query(repartition.input),
            "sort": self._sort,
            "with_columns": self._with_columns,
        }

    def query(self, relation: proto.Relation) -> Query:
        """Translate a relation to a query; raise EngineError if it is not supported."""
        if persisted := self._persisted.get(relation.common.plan_id):
            return persisted
        kind = str(relation.WhichOneof("rel_type"))
        if kind not in self._kinds:
            raise EngineError(f"the relation {kind}")
        return self._kinds[kind](getattr(relation, kind))

    def persist(self, relation: proto.Relation) -> None:
        """Compute a relation and store it in a temporary table."""
        query, table = self.query(relation), f"persisted_{relation.common.plan_id}"
        self._connection.execute(f"create temp table {table} as {query.text}")
        self._persisted[relation.common.plan_id] = Query(f"from {table}", query.columns)

    def unpersist(self, relation: proto.Relation) -> None:
        """Drop the temporary table of a relation."""
        if self._persisted.pop(relation.common.plan_id, None):
            self._connection.execute(f"drop table persisted_{relation.common.plan_id}")

    def _read(self, read: proto.Read) -> Query:
        table = quoted(read.named_table.unparsed_identifier)
        columns = self._connection.sql(f"from {table}").columns
        return Query(f"from {table}", columns)

    def _project(self, project: proto.Project) -> Query:
        columns = [name(each) for each in project.expressions]
        return Query(f"select {_named(project.expressions)} {self._from(project)}", columns)

    def _filter(self, filter_: proto.Filter) -> Query:
        child = self.query(filter_.input)
        return Query(f"from ({child.text}) where {sql(filter_.condition)}", child.columns)

    def _join(self, join: proto.Join) -> Query:
        left, right = self.query(join.left), self.query(join.right)
        if not join.using_columns or join.join_type not in _JOINS:
            raise EngineError("this kind of join")
        keys = ", ".join(map(quoted, join.using_columns))
        kind = _JOINS[join.join_type]
        return Query(
            f"from ({left.text}) {kind} join ({right.text}) using ({keys})",
            [*left.columns, *(c for c in right.columns if c not in join.using_columns)],
        )

    def _sort(self, sort: proto.Sort) -> Query:
        child = self.query(sort.input)
        keys = ", ".join(map(order, sort.order))
        return Query(f"from ({child.text}) order by {keys}", child.columns)

    def _aggregate(self, aggregate: proto.Aggregate) -> Query:
        if aggregate.group_type != aggregate.GROUP_TYPE_GROUPBY:
            raise EngineError("this kind of grouping")
        keys = list(aggregate.grouping_expressions)
        every = [*keys, *aggregate.aggregate_expressions]
        numbers = ", ".join(str(number + 1) for number in range(len(keys)))
        group_by = f" group by {numbers}" if numbers else ""
        columns = [name(each) for each in every]
        return Query(f"select {_named(every)} {self._from(aggregate)}{group_by}", columns)

    def _distinct(self, distinct: proto.Deduplicate) -> Query:
        if not distinct.all_columns_as_keys:
            raise EngineError("deduplication by a subset of columns")
        child = self.query(distinct.input)
        return Query(f"select distinct * from ({child.text})", child.columns)

    def _with_columns(self, added: proto.WithColumns) -> Query:
        child = self.query(added.input)
        expressions = {quoted(c): quoted(c) for c in child.columns}
        for alias in added.aliases:
            expressions[quoted(alias.name[0])] = sql(alias.expr)
        selected = ", ".join(f"{text} as {column}" for column, text in expressions.items())
        columns = dict.fromkeys([*child.columns, *(alias.name[0] for alias in added.aliases)])
        return Query(f"select {selected} from ({child.text})", list(columns))

    def _drop(self, drop: proto.Drop) -> Query:
        child = self.query(drop.input)
        dropped = {*drop.column_names, *map(name, drop.columns)}
        columns = [column for column in child.columns if column not in dropped]
        return Query(f"select {', '.join(map(quoted, columns))} from ({child.text})", columns)

    def _fill(self, fill: proto.NAFill) -> Query:
        child = self.query(fill.input)
        (value,) = fill.values
        default = next(number for _, number in value.ListFields())
        selected = ", ".join(
            f"coalesce({quoted(c)}, {default}) as {quoted(c)}" if c in fill.cols else quoted(c)
            for c in child.columns
        )
        return Query(f"select {selected} from ({child.text})", child.columns)

    def _from(self, relation: Any) -> str:
        return f"from ({self.query(relation.input).text})"


def _named(expressions: Sequence[Any]) -> str:
    return ", ".join(f"{sql(each)} as {quoted(name(each))}" for each in expressions)
