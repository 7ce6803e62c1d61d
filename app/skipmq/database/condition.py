"""The condition of a database, for `skipmq doctor`."""

import re

from skipmq.database import files, maintenance
from skipmq.database.schema import SchemaError

_DAMAGE = "select error || ': ' || remedy from skipmq.damaged_pages()"
_STAGED = "select label, value from skipmq.database_statistics() where name = 'staged messages'"
# Numbers that sends take. A sequence that cycles has no end.
_SEQUENCES = """
select s.sequencename, s.max_value - coalesce(s.last_value, s.start_value),
  100.0 * (s.max_value - coalesce(s.last_value, s.start_value)) / (s.max_value - s.min_value)
from pg_sequences s
where s.schemaname = 'skipmq' and not s.cycle
order by 2, 1
"""
# The least share of a sequence's numbers, in percent, that is no problem.
_ENOUGH = 10
# The functions in sql/planner.sql, and the settings that it gives to each.
_PLANNED = re.compile(r"array '\{(.*?)\}'", re.DOTALL)
_SETTING = re.compile(r"^\s+set (\w+) = (\w+)", re.MULTILINE)
_LACKING = """
select p.proname from pg_proc p
where p.pronamespace = to_regnamespace('skipmq') and p.proname = any (%s)
  and not coalesce(p.proconfig, '{}') @> %s
order by 1
"""


def check_pages(url: str) -> str:
    """Return that no page is known to be damaged; raise SchemaError with the remedies."""
    with maintenance.connect(url) as connection:
        found = [damage for (damage,) in connection.execute(_DAMAGE)]
    if found:
        raise SchemaError("; ".join(found))
    return "no node has met a damaged page"


def check_staged(url: str) -> str:
    """Return that no messages are left staged; raise SchemaError where some are."""
    with maintenance.connect(url) as connection:
        found = [f"{int(number)} for {queue}" for queue, number in connection.execute(_STAGED)]
    if found:
        raise SchemaError(
            f"messages are staged for more than an hour, {', '.join(found)}, of a query of Spark or"
            " a replay that has not sent them, and expire: run it again"
        )
    return "no messages of Spark or a replay are left"


def check_sequences(url: str) -> str:
    """Return how many numbers the sequences have left; raise SchemaError where they are few."""
    with maintenance.connect(url) as connection:
        rows = connection.execute(_SEQUENCES).fetchall()
    left = ", ".join(f"{name} has {number:,} numbers left" for name, number, _ in rows)
    if any(percent < _ENOUGH for *_, percent in rows):
        raise SchemaError(
            f"{left}: at the end sends fail; move the queues to a new database before, with"
            " `skipmq import`, or raise the sequence's maximum where it was lowered"
        )
    return left


def check_planner(url: str) -> str:
    """Return that all functions have their planner settings; raise SchemaError with the others."""
    settings = [f"{name}={value}" for name, value in _SETTING.findall(_planner_sql())]
    with maintenance.connect(url) as connection:
        found = [name for (name,) in connection.execute(_LACKING, (planned(), settings))]
    if found:
        raise SchemaError(
            f"functions that lack planner settings, which `create or replace` drops, and are slow:"
            f" {', '.join(found)}: run `skipmq migrate` as the schema's owner"
        )
    return "all functions have their planner settings"


def planned() -> list[str]:
    """Return the names of the functions that have planner settings."""
    (names,) = _PLANNED.findall(_planner_sql())
    return [name.strip() for name in names.split(",")]


def _planner_sql() -> str:
    return files.planner().read_text(encoding="utf-8")
