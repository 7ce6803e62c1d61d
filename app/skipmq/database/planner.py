"""The planner settings of functions: without them each call is planned, or scans whole tables."""

import re
from typing import Any

import psycopg

from skipmq.database import files

# The functions in sql/planner.sql, and the settings that it gives to each.
_FUNCTIONS = re.compile(r"array '\{(.*?)\}'", re.DOTALL)
_SETTING = re.compile(r"^\s+set (\w+) = (\w+)", re.MULTILINE)
_LACKING = """
select p.proname from pg_proc p
where p.pronamespace = to_regnamespace('skipmq') and p.proname = any (%s)
  and not coalesce(p.proconfig, '{}') @> %s
order by 1
"""


def functions() -> list[str]:
    """Return the names of the functions that have planner settings."""
    (names,) = _FUNCTIONS.findall(_sql())
    return [name.strip() for name in names.split(",")]


def lacking(connection: psycopg.Connection[Any]) -> list[str]:
    """Return the functions that have lost planner settings, as `create or replace` has it."""
    settings = [f"{name}={value}" for name, value in _SETTING.findall(_sql())]
    return [name for (name,) in connection.execute(_LACKING, (functions(), settings))]


def _sql() -> str:
    return files.planner().read_text(encoding="utf-8")
