"""How each SQL function is routed: the line "Routed:" of its contract, as a function of PL/Proxy.

Source: PL/Proxy 2.10, "Language Syntax".
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import LiteralString

from skipmq.database import files, maintenance

# Partition numbers are found by these, in schema skipmq_router (sql/router/).
_BY_NAME = "skipmq_router.partition_of(p_account, p_region, {})"
# A topic is always at home.
_BY_TOPIC = "skipmq_router.home(p_account, p_region, p_topic)"
# The upper bits of a queue id are the number of its partition.
_BY_ID = "int8shr({}, 57)"
_BY_ARN = "skipmq_router.partition_of_arn({})"
_BY_TASK = "skipmq_router.partition_of_task(p_source_arn, p_destination_arn)"
_ROUTED = re.compile(r"^-- Routed: (.*(?:\n--   .*)*)", re.MULTILINE)
_BY_ARGUMENT = re.compile(r"to the partition of (\w+)\.")
_PAGED = re.compile(r"to all partitions; paged by (.*)\.", re.DOTALL)
_MERGED = re.compile(r"to all partitions; the rows are merged, (.*)\.", re.DOTALL)
_SIGNATURES: LiteralString = """
select
  p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid),
  array(
    select a.name
    from unnest(p.proargnames, coalesce(p.proargmodes, '{}'::"char"[]))
      with ordinality a (name, mode, place)
    where coalesce(a.mode, 'i') = 'i'
      and a.place <= coalesce(cardinality(p.proallargtypes), p.pronargs)
    order by a.place),
  array(
    select format_type(t.type, null)
    from unnest(p.proargtypes) with ordinality t (type, place)
    order by t.place),
  coalesce((
    select jsonb_agg(
      jsonb_build_array(quote_ident(a.name), format_type(a.type, null)) order by a.place)
    from unnest(p.proargnames, p.proargmodes, p.proallargtypes)
      with ordinality a (name, mode, type, place)
    where a.mode in ('t', 'o')), '[]'),
  case p.provolatile when 'i' then 'immutable' when 's' then 'stable' else 'volatile' end,
  p.proretset
from pg_proc p
where p.pronamespace = 'skipmq'::regnamespace
"""
# What sql/router/ calls is generated.
HAND_WRITTEN = "by sql/router/."
_HEAD = re.compile(r"^create function skipmq\.(\w+)$", re.MULTILINE)
NOT_ROUTED = "not: "


class RoutingError(Exception):
    """A contract whose routing is unknown."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A function as the catalogue of a partition has it.

    `arguments` and `result` are what `create function` takes, `names` the input arguments in order,
    `columns` the names and types of a result of several columns.
    """

    name: str
    arguments: str
    result: str
    names: list[str]
    types: list[str]
    columns: list[tuple[str, str]]
    volatility: str
    is_set: bool


def routed(file: Path) -> str | None:
    """Return the routing in a function's contract; None where only other functions call it."""
    found = _ROUTED.search(file.read_text(encoding="utf-8"))
    return found and " ".join(found[1].replace("\n--", "").split())


def signatures(url: str) -> dict[str, Signature]:
    """Return the functions of a partition by name; raise psycopg.OperationalError."""
    with maintenance.connect(url) as connection:
        rows = connection.execute(_SIGNATURES).fetchall()
    return {row[0]: Signature(*row) for row in rows}


def functions(known: dict[str, Signature]) -> Iterator[str]:
    """Yield the SQL of each generated function."""
    for file in files.functions():
        how = routed(file) or HAND_WRITTEN
        if how != HAND_WRITTEN and not how.startswith(NOT_ROUTED):
            yield function(known[file.stem], how)


def hand_written(known: dict[str, Signature]) -> Iterator[str]:
    """Yield each file of sql/router/, where functions get their parameters and results."""
    for file in sorted((files.folder("sql") / "router").glob("*.sql")):
        text = file.read_text(encoding="utf-8")
        yield _HEAD.sub(lambda found: _head(known[found[1]]).rstrip(), text)


def function(signature: Signature, routing: str) -> str:
    """Return the SQL that creates a function in a router.

    Raises RoutingError where the routing is unknown.
    """
    if (form := _FORMS.get(routing)) is not None:
        return form(signature)
    if (found := _BY_ARGUMENT.fullmatch(routing)) is not None:
        return _for_argument(signature, found[1])
    if (found := _PAGED.fullmatch(routing)) is not None:
        return _paged(signature, found[1])
    if (found := _MERGED.fullmatch(routing)) is not None:
        return _merged(signature, found[1])
    raise RoutingError(f"{signature.name}: no such routing: {routing}")


def _direct(signature: Signature, where: str) -> str:
    """Return a function that calls its own in the partition of an argument."""
    return _head(signature) + (
        f"language plproxy\nas $$\n  cluster 'skipmq';\n  run on {where};\n$$;\n"
    )


def _found(signature: Signature, where: str) -> str:
    """Return a function that looks the partition up, in another statement, and calls its own."""
    call = f"skipmq_router.{signature.name}({', '.join((where, *signature.names))})"
    return (
        f"{_inner(signature)}{_head(signature)}"
        f"language sql {signature.volatility}\nas $$\n  select * from {call}\n$$;\n"
    )


def _for_argument(signature: Signature, argument: str) -> str:
    if argument in {"p_name", "p_queue"}:
        return _found(signature, _BY_NAME.format(argument))
    if argument.endswith("_arn") or argument == "p_target":
        return _found(signature, _BY_ARN.format(argument))
    return _direct(signature, _BY_ID.format(argument))


def _with_target(signature: Signature) -> str:
    number, target = (f"({name} >> 57)::integer" for name in ("p_queue_id", "p_target"))
    call = f"skipmq_router.{signature.name}({', '.join((number, *signature.names))})"
    return (
        f"{_inner(signature)}{_head(signature)}"
        f"language plpgsql {signature.volatility}\nas $$\nbegin\n"
        f"  perform skipmq_router.check_same({number}, {target}, 'The target is');\n"
        f"  return query select * from {call};\nend $$;\n"
    )


def _for_each_id(signature: Signature) -> str:
    arrays = [
        name
        for name, type_ in zip(signature.names, signature.types, strict=True)
        if type_.endswith("[]")
    ]
    result = signature.result if signature.is_set else f"setof {signature.result}"
    return (
        f"create function skipmq_router.{signature.name}({_inputs(signature)})\n"
        f"returns {result}\n"
        f"language plproxy\nas $$\n  cluster 'skipmq';\n  split {', '.join(arrays)};\n"
        f"  run on {_BY_ID.format('p_queue_ids')};\n  target skipmq.{signature.name};\n$$;\n"
        f"{_head(signature)}language sql {signature.volatility}\nas $$\n"
        f"  select * from skipmq_router.{signature.name}({', '.join(signature.names)})\n$$;\n"
    )


def _on_all(signature: Signature) -> str:
    """Return an inner function that calls its own in all partitions at once."""
    result = _table(signature)
    if not signature.columns and not signature.is_set:
        result = f"setof {result}"
    return (
        f"create function skipmq_router.{signature.name}({_inputs(signature)})\n"
        f"returns {result}\nlanguage plproxy\nas $$\n  cluster 'skipmq';\n  run on all;\n"
        f"  target skipmq.{signature.name};\n$$;\n"
    )


def _merged(signature: Signature, order: str) -> str:
    return (
        f"{_on_all(signature)}{_head(signature)}"
        f"language sql {signature.volatility}\nas $$\n"
        f"  select * from skipmq_router.{signature.name}({', '.join(signature.names)}) r\n"
        f"  {order}\n$$;\n"
    )


def _paged(signature: Signature, order: str) -> str:
    """Return a function that merges pages whose last row, without a name, sums the other matches.

    Each partition returns the rows of the page and of those before it.
    """
    key = next(name for name, _ in signature.columns if name in {"queue", "name"})
    given = {"p_limit": "p_limit + p_offset", "p_offset": "0"}
    passed = ", ".join(f"{name} => {given.get(name, name)}" for name in signature.names)
    kept = ", ".join(f"g.{name}" for name, _ in signature.columns)
    summed = ", ".join(
        f"coalesce(sum(e.{name}), 0)::{type_}"
        if type_ in {"bigint", "double precision"} and not name.startswith("oldest")
        else f"null::{type_}"
        for name, type_ in signature.columns
    )
    return (
        f"{_on_all(signature)}{_head(signature)}"
        f"language plpgsql {signature.volatility}\nas $$\n"
        "#variable_conflict use_column\nbegin\n"
        "  return query\n  with every as materialized (\n"
        "    select e.*, row_number() over () as place\n"
        f"    from skipmq_router.{signature.name}({passed}) e\n"
        "  ), given as materialized (\n"
        f"    select e.*, row_number() over (order by {order}) as rank\n"
        f"    from every e where e.{key} is not null\n"
        "  ), page as materialized (\n"
        "    select g.* from given g\n"
        "    where g.rank > p_offset and g.rank <= p_offset + p_limit\n"
        "  )\n"
        f"  (select {kept} from page g order by g.rank)\n  union all\n"
        f"  select {summed} from every e\n"
        "  where not exists (select from page g where g.place = e.place);\n"
        "end $$;\n"
    )


def _in_each(signature: Signature, kind: str) -> str:
    """Return a function that runs in each partition; one that fails does not stop the others."""
    inner_call = f"skipmq_router.{signature.name}({', '.join(('v_partition', *signature.names))})"
    declared, step, end = {
        "void": ("", f"perform {inner_call};", ""),
        "rows": ("", f"return query select * from {inner_call};", ""),
        "sum": (
            "  v_result bigint := 0;\n",
            f"v_result := v_result + coalesce({inner_call}, 0);",
            "  return v_result;\n",
        ),
        "greatest": (
            f"  v_result {signature.result};\n",
            f"v_result := greatest(v_result, {inner_call});",
            "  return v_result;\n",
        ),
        "any": (
            "",
            f"return query select * from {inner_call};\n      return;"
            if signature.is_set
            else f"return {inner_call};",
            "",
        ),
    }[kind]
    return (
        f"{_inner(signature)}{_head(signature)}"
        "language plpgsql volatile\nas $$\n#variable_conflict use_column\ndeclare\n"
        f"{declared}  v_sqlstate text;\n  v_message text;\nbegin\n"
        "  for v_partition in 0 .. skipmq_router.partitions() - 1 loop\n    begin\n"
        f"      {step}\n    exception\n      when others then\n"
        "        get stacked diagnostics v_sqlstate = returned_sqlstate,"
        " v_message = message_text;\n"
        "    end;\n  end loop;\n  if v_sqlstate is not null then\n"
        "    raise exception '%', v_message using errcode = v_sqlstate;\n  end if;\n"
        f"{end}end $$;\n"
    )


def _inner(signature: Signature) -> str:
    """Return an inner function that calls its own in the partition of a number."""
    arguments = ", ".join(filter(None, ("p_partition integer", _inputs(signature))))
    call = f"skipmq.{signature.name}({', '.join(signature.names)})"
    columns = ", ".join(f"r.{name}" for name, _ in signature.columns)
    query = f"select {columns} from {call} r" if columns else f"select {call}"
    if signature.is_set and not columns:
        query = f"select r from {call} r"
    return (
        f"create function skipmq_router.{signature.name}({arguments})\n"
        f"returns {_table(signature)}\nlanguage plproxy\nas $$\n  cluster 'skipmq';\n"
        f"  run on p_partition;\n  {query};\n$$;\n"
    )


def _table(signature: Signature) -> str:
    if not signature.columns:
        return signature.result
    return f"table ({', '.join(f'{name} {type_}' for name, type_ in signature.columns)})"


def _head(signature: Signature) -> str:
    return (
        f"create function skipmq.{signature.name}({signature.arguments})\n"
        f"returns {signature.result}\n"
    )


def _inputs(signature: Signature) -> str:
    return ", ".join(
        f"{name} {type_}" for name, type_ in zip(signature.names, signature.types, strict=True)
    )


_FORMS: dict[str, Callable[[Signature], str]] = {
    "by sql/router/, in one partition.": _inner,
    "by sql/router/, in all partitions.": _on_all,
    "to the partition of p_queue_id, where p_target must be.": _with_target,
    "to the home of p_topic.": partial(_found, where=_BY_TOPIC),
    "to the partition of p_source_arn and p_destination_arn.": partial(_found, where=_BY_TASK),
    "to the partition of each of p_queue_ids.": _for_each_id,
    "to the first partition that answers.": partial(_in_each, kind="any"),
    "to each partition.": partial(_in_each, kind="void"),
    "to each partition; the rows are merged.": partial(_in_each, kind="rows"),
    "to each partition; the results are added.": partial(_in_each, kind="sum"),
    "to each partition; the greatest result is returned.": partial(_in_each, kind="greatest"),
}
