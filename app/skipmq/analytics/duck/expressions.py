"""Translation of Spark Connect's expressions to DuckDB's SQL.

Unsupported expressions raise EngineError, so that no result differs from Spark's.
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
# SQL of functions, with a placeholder for each argument.
_TEMPLATES = {
    **{name: f"({{}} {name} {{}})" for name in ("+", "-", "*", "/", "<", "<=", ">", ">=")},
    "==": "({} = {})",
    "and": "({} and {})",
    "or": "({} or {})",
    "not": "(not {})",
    "isNull": "({} is null)",
    "isNotNull": "({} is not null)",
    "avg": "avg({})",
    "ceil": "cast(ceil({}) as bigint)",
    # Spark ignores nulls.
    "collect_list": "list({0}) filter (where {0} is not null)",
    "count": "count({})",
    # DuckDB's count_if is null if all values are null.
    "count_if": "count(*) filter (where {})",
    "explode": "unnest({})",
    "filter": "list_filter({}, {})",
    "floor": "cast(floor({}) as bigint)",
    # Spark's index is zero-based.
    "get": "list_extract({}, 1 + {})",
    "map_entries": "map_entries({})",
    "max": "max({})",
    # Unlike arg_max, returns null if the first argument is null for the greatest second one.
    "max_by": "arg_max_null({}, {})",
    "min": "min({})",
    "pmod": "((({0} % {1}) + {1}) % {1})",
    "row_number": "row_number()",
    # Variants are only used for their schema, so json_schema returns that.
    "schema_of_variant": "{}",
    "sequence": "generate_series({}, {})",
    # Only used in ascending order.
    "sort_array": "list_sort({})",
    "sum": "sum({})",
    "timestamp_micros": "make_timestamptz({})",
    "transform": "list_transform({}, {})",
    "try_divide": "({} / nullif({}, 0))",
    "try_parse_json": "json_schema({})",
    "unix_micros": "epoch_us({})",
}


def sql(expression: Expression) -> str:
    """Translate an expression to SQL; raise EngineError if it is not supported."""
    kind = str(expression.WhichOneof("expr_type"))
    if kind not in _KINDS:
        raise EngineError(f"the expression {kind}")
    return _KINDS[kind](getattr(expression, kind))


def name(expression: Expression) -> str:
    """Return the column name of a selected expression."""
    if expression.HasField("alias"):
        return str(expression.alias.name[0])
    if expression.HasField("unresolved_attribute"):
        return str(expression.unresolved_attribute.unparsed_identifier).rpartition(".")[2]
    if expression.HasField("unresolved_function"):
        return str(expression.unresolved_function.function_name)
    raise EngineError("columns without a name")


def order(key: proto.Expression.SortOrder) -> str:
    """Translate a sort key to SQL."""
    direction = "desc" if key.direction == key.SORT_DIRECTION_DESCENDING else "asc"
    nulls = "first" if key.null_ordering == key.SORT_NULLS_FIRST else "last"
    return f"{sql(key.child)} {direction} nulls {nulls}"


def quoted(identifier: str) -> str:
    """Return a quoted SQL identifier."""
    return '"' + identifier.replace('"', '""') + '"'


def text(content: str) -> str:
    """Return an SQL string literal."""
    return "'" + content.replace("'", "''") + "'"


def type_of(spark: str) -> str:
    """Translate a type of Spark's SQL such as `array<struct<kind: string>>`."""
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
    """Yield the parts between commas outside of angle brackets."""
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
        # A literal without an exponent would be a decimal.
        return f"cast('{content!r}' as double)"
    if kind == "string":
        return text(content)
    if kind == "timestamp":
        return f"make_timestamptz({content})"
    raise EngineError(f"the literal {kind}")


def _attribute(attribute: proto.Expression.UnresolvedAttribute) -> str:
    return ".".join(map(quoted, attribute.unparsed_identifier.split(".")))


def _function(function: proto.Expression.UnresolvedFunction) -> str:
    function_name, arguments = function.function_name, function.arguments
    if function.is_distinct:
        raise EngineError(f"{function_name} of distinct values")
    if function_name in _FUNCTIONS:
        return _FUNCTIONS[function_name](arguments)
    if function_name not in _TEMPLATES:
        raise EngineError(f"the function {function_name}")
    return _TEMPLATES[function_name].format(*map(sql, arguments))


def _cast(cast: proto.Expression.Cast) -> str:
    # Spark truncates and DuckDB rounds, but the reports cast no fractions.
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
            raise EngineError("range windows")
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
    # Java refers to a group by $1.
    replaced_by = re.sub(r"\$(\d)", r"\\\1", replacement.literal.string)
    return f"regexp_replace({sql(subject)}, {sql(pattern)}, {text(replaced_by)}, 'g')"


def _struct(arguments: Sequence[Expression]) -> str:
    return f"{{{', '.join(f'{text(name(each))}: {sql(each)}' for each in arguments)}}}"


def _joined(prefix: str, separator: str, suffix: str) -> Callable[[Sequence[Expression]], str]:
    return lambda arguments: prefix + separator.join(map(sql, arguments)) + suffix


_FUNCTIONS: Mapping[str, Callable[[Sequence[Expression]], str]] = {
    "array": _joined("[", ", ", "]"),
    "coalesce": _joined("coalesce(", ", ", ")"),
    # DuckDB's concat ignores nulls.
    "concat": _joined("(", " || ", ")"),
    "from_json": _from_json,
    "greatest": _joined("greatest(", ", ", ")"),
    "in": _in,
    "least": _joined("least(", ", ", ")"),
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
    # Only the argument of count.
    "unresolved_star": lambda _: "*",
    "unresolved_named_lambda_variable": lambda variable: quoted(variable.name_parts[0]),
    "window": _window,
}
