"""The setting SKIPMQ of a Django project, what is wrong with it, and the project's databases.

A dict of DATABASE, the alias of the broker's database (default "default"); MANAGED, whether this
project installs the schema there (default True); QUEUES, each queue that it creates by name, with
the attributes of SQS.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from django.apps import apps
from django.conf import settings
from django.core import checks
from django.db import DEFAULT_DB_ALIAS, connections, router
from django.db.utils import ConnectionDoesNotExist
from django.utils.module_loading import module_has_submodule
from psycopg.conninfo import make_conninfo

# The tag of the system check.
TAG = "skipmq"
# The module of an app that has its consumers.
CONSUMERS = "consumers"
# The app with the backend of Django's tasks.
TASKS = "skipmq.django.tasks"
_TYPES = {"DATABASE": str, "MANAGED": bool, "QUEUES": dict}
# What Django passes to psycopg in addition to parameters of libpq.
_PSYCOPG = {"autocommit", "context", "cursor_factory", "prepare_threshold", "row_factory"}
# The names of the databases in the settings.
_names: dict[str, Any] = {}


def database() -> str:
    """Return the alias of the database that has the schema."""
    return str(_given().get("DATABASE", DEFAULT_DB_ALIAS))


def is_managed() -> bool:
    """Return whether this project installs the schema; otherwise `skipmq migrate` does."""
    return bool(_given().get("MANAGED", True))


def queues() -> Mapping[str, Mapping[str, Any]]:
    """Return the attributes of the queues that the project declares, by name."""
    found: Mapping[str, Mapping[str, Any]] = _given().get("QUEUES", {})
    return found


def check(**_: Any) -> Sequence[Any]:
    """Return what is wrong with the setting, and what to be warned of, for Django's checks."""
    return errors() or _models_elsewhere(database())


def errors() -> Sequence[Any]:
    """Return what is wrong with the setting."""
    given = _given()
    if not isinstance(given, dict):
        return [_error("SKIPMQ is no dict.", 'Write SKIPMQ = {"DATABASE": "default"}.', 1)]
    found = [
        _error(f"SKIPMQ has the unknown key {key!r}.", f"Known are {', '.join(_TYPES)}.", 1)
        for key in given
        if key not in _TYPES
    ]
    found += [
        _error(f"SKIPMQ[{key!r}] is {value!r}.", f"It is a {_TYPES[key].__name__}.", 1)
        for key, value in given.items()
        if key in _TYPES and not isinstance(value, _TYPES[key])
    ]
    if found:
        return found
    found = [
        _error(
            f"SKIPMQ['QUEUES'][{name!r}] is {value!r}.",
            'It is a dict of attributes, as in {"VisibilityTimeout": 60}, or an empty one.',
            1,
        )
        for name, value in queues().items()
        if not isinstance(value, dict)
    ]
    return found + _database_problems(database())


def _database_problems(alias: str) -> list[Any]:
    hint = 'Write SKIPMQ = {"DATABASE": alias} with the alias of a PostgreSQL in DATABASES.'
    try:
        vendor = connections[alias].vendor
    except ConnectionDoesNotExist:
        text = f"SKIPMQ is in the database {alias!r}, which DATABASES does not have."
        return [_error(text, hint, 2)]
    if vendor != "postgresql":
        text = f"SKIPMQ is in the database {alias!r} of {vendor}, and needs PostgreSQL."
        return [_error(text, hint, 2)]
    return []


def _models_elsewhere(alias: str) -> list[Any]:
    """Return a warning for each app that has consumers and models, in two databases."""
    found = []
    for config in apps.get_app_configs():
        # The app of tasks has its rows in the broker's database, whatever routers say.
        if config.name == TASKS or not module_has_submodule(config.module, CONSUMERS):
            continue
        models = (router.db_for_write(each) for each in config.get_models())
        for other in sorted({each for each in models if not is_same(each, alias)}):
            text = (
                f"The consumers of {config.label!r} receive from the database {alias!r}, and models"
                f" of it are in {other!r}: atomic(context) holds only what is in {alias!r}, and"
                f" what a handler writes in {other!r} it writes again when a message comes again."
            )
            hint = "Have SKIPMQ in the database of the models, or let handlers know what they did."
            found.append(checks.Warning(text, hint=hint, id="skipmq.W001"))
    return found


def _given() -> Any:
    return getattr(settings, "SKIPMQ", {})


def _error(text: str, hint: str, number: int) -> Any:
    return checks.Error(text, hint=hint, id=f"skipmq.E00{number}")


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
