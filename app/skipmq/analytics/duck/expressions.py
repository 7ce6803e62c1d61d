"""Columns as Spark Connect sends them, as DuckDB's SQL.

What is not here is refused by name: nothing is computed in another way than Spark would.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from pyspark.sql.connect.proto import expressions_pb2 as proto

from skipmq.analytics.errors import EngineError

Expression: TypeAlias = proto.Expression

_TYPES = {
    "bigint": "bigint",
    "boolean": "boolean",
    "double": "double",
    "int": "integer",
    "string": "varchar",
}
# By what stands for each argument.
_TEMPLATES = {
    **{name: f"({{}} {name} {{}})" for name in ("+", "-", "*", "/", "<", "<=", ">", ">=")},
    "==": "({} = {})",
    "and": "({} and {})",
    "or": "({} or {})",
    "not": "(not {})",
    "isNull": "({} is null)",
    "isNotNull": "({} is not null)",
    "avg": "avg({})",
    "count": "count({})",
    # DuckDB's count_if is null where there are only nulls.
    "count_if": "count(*) filter (where {})",
    "explode": "unnest({})",
    "filter": "list_filter({}, {})",
    "floor": "cast(floor({}) as bigint)",
    # Spark counts from 0.
    "get": "list_extract({}, 1 + {})",
    "map_entries": "map_entries({})",
    "max": "max({})",
    # Spark's may be null where the other is greatest.
    "max_by": "arg_max_null({}, {})",
    "min": "min({})",
    # Exact, which is within the accuracy that is asked for.
    "percentile_approx": "quantile_disc({}, {})",
    "pmod": "((({0} % {1}) + {1}) % {1})",
    "row_number": "row_number()",
    # A variant is its schema here: nothing else is asked of it.
    "schema_of_variant": "{}",
    "sequence": "generate_series({}, {})",
    "sum": "sum({})",
    "timestamp_micros": "make_timestamptz({})",
    "transform": "list_transform({}, {})",
    "try_divide": "({} / nullif({}, 0))",
    "try_parse_json": "json_schema({})",
    "unix_micros": "epoch_us({})",
}


def sql(expression: Expression) -> str:
    """Return an expression as SQL; raise EngineError for what DuckDB is not known to have."""
    kind = str(expression.WhichOneof("expr_type"))
    if kind not in _KINDS:
        raise EngineError(f"an expression ({kind})")
    return _KINDS[kind](getattr(expression, kind))


def name(expression: Expression) -> str:
    """Return the name of the column that an expression of a selection makes."""
    if expression.HasField("alias"):
        return str(expression.alias.name[0])
    if expression.HasField("unresolved_attribute"):
        return str(expression.unresolved_attribute.unparsed_identifier).rpartition(".")[2]
    if expression.HasField("unresolved_function"):
        return str(expression.unresolved_function.function_name)
    raise EngineError("a column without a name")


def order(wanted: proto.Expression.SortOrder) -> str:
    """Return what to sort by as SQL."""
    way = "desc" if wanted.direction == wanted.SORT_DIRECTION_DESCENDING else "asc"
    nulls = "first" if wanted.null_ordering == wanted.SORT_NULLS_FIRST else "last"
    return f"{sql(wanted.child)} {way} nulls {nulls}"


def quoted(identifier: str) -> str:
    """Return an identifier as SQL has it."""
    return '"' + identifier.replace('"', '""') + '"'


def text(content: str) -> str:
    """Return a text as a literal of SQL."""
    return "'" + content.replace("'", "''") + "'"


def type_of(spark: str) -> str:
    """Return DuckDB's name of a type that Spark's SQL names, `array<struct<kind: string>>`."""
    outer, _, inner = spark.strip().partition("<")
    if not inner:
        if outer not in _TYPES:
            raise EngineError(f"the type {outer}")
        return _TYPES[outer]
    parts = list(_split(inner.removesuffix(">")))
    if outer == "array":
        return f"{type_of(parts[0])}[]"
    if outer == "map":
        return f"map({', '.join(map(type_of, parts))})"
    fields = [part.partition(":") for part in parts]
    return f"struct({', '.join(f'{quoted(n.strip())} {type_of(t)}' for n, _, t in fields)})"


def _split(types: str) -> Iterator[str]:
    """Give the parts between the commas that are within no brackets."""
    part, depth = "", 0
    for each in types:
        depth += {"<": 1, ">": -1}.get(each, 0)
        if each == "," and not depth:
            yield part
            part = ""
        else:
            part += each
    yield part


def _literal(value: proto.Expression.Literal) -> str:
    kind = str(value.WhichOneof("literal_type"))
    content: Any = getattr(value, kind)
    if kind == "null":
        return "null"
    if kind == "boolean":
        return str(content).lower()
    if kind in {"byte", "short", "integer", "long"}:
        return str(content) if kind != "long" else f"cast({content} as bigint)"
    if kind == "double":
        # Without an exponent it would be a decimal.
        return f"cast('{content!r}' as double)"
    if kind == "string":
        return text(content)
    if kind == "timestamp":
        return f"make_timestamptz({content})"
    raise EngineError(f"a literal ({kind})")


def _attribute(attribute: proto.Expression.UnresolvedAttribute) -> str:
    return ".".join(map(quoted, attribute.unparsed_identifier.split(".")))


def _function(function: proto.Expression.UnresolvedFunction) -> str:
    found, arguments = function.function_name, function.arguments
    if function.is_distinct:
        raise EngineError(f"{found} of distinct values")
    if found in _FUNCTIONS:
        return _FUNCTIONS[found](arguments)
    if found not in _TEMPLATES:
        raise EngineError(f"the function {found}")
    return _TEMPLATES[found].format(*map(sql, arguments))


def _cast(cast: proto.Expression.Cast) -> str:
    # Spark cuts fractions off, where DuckDB rounds: nothing here has one.
    return f"cast({sql(cast.expr)} as {type_of(cast.type_str)})"


def _extract(extract: proto.Expression.UnresolvedExtractValue) -> str:
    child, key = sql(extract.child), extract.extraction.literal
    if key.HasField("string"):
        return f"struct_extract({child}, {text(key.string)})"
    return f"list_extract({child}, {key.integer + 1})"


def _lambda(function: proto.Expression.LambdaFunction) -> str:
    parameters = ", ".join(quoted(each.name_parts[0]) for each in function.arguments)
    return f"lambda {parameters}: {sql(function.function)}"


def _window(window: proto.Expression.Window) -> str:
    clauses = []
    if window.partition_spec:
        clauses.append(f"partition by {', '.join(map(sql, window.partition_spec))}")
    if window.order_spec:
        clauses.append(f"order by {', '.join(map(order, window.order_spec))}")
    if window.HasField("frame_spec"):
        frame = window.frame_spec
        if frame.frame_type != frame.FRAME_TYPE_ROW:
            raise EngineError("a window by values")
        bounds = f"{_bound(frame.lower, 'preceding')} and {_bound(frame.upper, 'following')}"
        clauses.append(f"rows between {bounds}")
    return f"{sql(window.window_function)} over ({' '.join(clauses)})"


def _bound(bound: proto.Expression.Window.WindowFrame.FrameBoundary, side: str) -> str:
    if bound.current_row:
        return "current row"
    if bound.unbounded:
        return f"unbounded {side}"
    rows = bound.value.literal.integer or bound.value.literal.long
    return f"{abs(rows)} {'following' if rows > 0 else 'preceding'}"


def _case(arguments: Sequence[Expression]) -> str:
    texts = list(map(sql, arguments))
    otherwise = f" else {texts.pop()}" if len(texts) % 2 else ""
    whens = zip(texts[::2], texts[1::2], strict=True)
    return f"case {' '.join(f'when {c} then {v}' for c, v in whens)}{otherwise} end"


def _in(arguments: Sequence[Expression]) -> str:
    value, *others = map(sql, arguments)
    return f"({value} in ({', '.join(others)}))" if others else "false"


def _from_json(arguments: Sequence[Expression]) -> str:
    document, schema = arguments
    return f"try_cast(try_cast({sql(document)} as json) as {type_of(schema.literal.string)})"


def _replace(arguments: Sequence[Expression]) -> str:
    subject, pattern, replacement = arguments[:3]
    # Java names a group $1.
    by = re.sub(r"\$(\d)", r"\\\1", replacement.literal.string)
    return f"regexp_replace({sql(subject)}, {sql(pattern)}, {text(by)}, 'g')"


def _struct(arguments: Sequence[Expression]) -> str:
    return f"{{{', '.join(f'{text(name(each))}: {sql(each)}' for each in arguments)}}}"


def _listed(before: str, between: str, after: str) -> Callable[[Sequence[Expression]], str]:
    return lambda arguments: before + between.join(map(sql, arguments)) + after


_FUNCTIONS: Mapping[str, Callable[[Sequence[Expression]], str]] = {
    "array": _listed("[", ", ", "]"),
    "coalesce": _listed("coalesce(", ", ", ")"),
    # DuckDB's concat passes over nulls.
    "concat": _listed("(", " || ", ")"),
    "from_json": _from_json,
    "greatest": _listed("greatest(", ", ", ")"),
    "in": _in,
    "least": _listed("least(", ", ", ")"),
    "regexp_replace": _replace,
    "struct": _struct,
    "when": _case,
}
_KINDS: Mapping[str, Callable[[Any], str]] = {
    "alias": lambda alias: sql(alias.expr),
    "cast": _cast,
    "lambda_function": _lambda,
    "literal": _literal,
    "unresolved_attribute": _attribute,
    "unresolved_extract_value": _extract,
    "unresolved_function": _function,
    # Of count, which takes no other.
    "unresolved_star": lambda _: "*",
    "unresolved_named_lambda_variable": lambda variable: quoted(variable.name_parts[0]),
    "window": _window,
}
