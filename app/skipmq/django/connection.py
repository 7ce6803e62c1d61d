"""The databases of a Django project: their addresses, and which are those of a test run."""

from typing import Any

from django.conf import settings
from django.db import connections
from psycopg.conninfo import make_conninfo

# What Django passes to psycopg in addition to parameters of libpq.
_PSYCOPG = {"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"}
# The names of the databases in the settings.
_names: dict[str, Any] = {}


def remember_names() -> None:
    """Keep the names that databases have when the project is set up."""
    _names.update({alias: given.get("NAME") for alias, given in settings.DATABASES.items()})


def is_of_tests(alias: str) -> bool:
    """Return whether a database is one that a test run has made.

    Test runners, Django's and pytest-django's, give the alias another name after the set-up.
    """
    return alias in _names and connections[alias].settings_dict["NAME"] != _names[alias]


def is_same(alias: str, other: str) -> bool:
    """Return whether two aliases are of one database, whose transactions hold what both do."""
    return alias == other or _place(alias) == _place(other)


def _place(alias: str) -> tuple[Any, ...]:
    given = connections[alias].settings_dict
    return connections[alias].vendor, *(str(given[name]) for name in ("HOST", "PORT", "NAME"))


def dsn(alias: str) -> str:
    """Return the address of a database of PostgreSQL, as libpq takes it, with its password."""
    given = connections[alias].get_connection_params()
    return make_conninfo("", **{k: v for k, v in given.items() if k not in _PSYCOPG})
