"""The schema and the declared queues in the project's database, and in that of a test run."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from django.apps import apps
from django.core.management import CommandError
from django.db import Error

from skipmq.client.errors import sqlstate
from skipmq.config import declarations
from skipmq.django import configuration, statements
from skipmq.protocol import limits

_POLICY = declarations.REDRIVE_POLICY
_OWN = (limits.DEFAULT_ACCOUNT, limits.DEFAULT_REGION)


def install(alias: str, out: Any = None) -> None:
    """Bring the schema to this release, and create the queues of the setting SKIPMQ.

    Does nothing in another database than the setting's, nor where the project does not manage the
    schema, unless a test run has made the database: that is the project's own. `out` is written to.
    Raises CommandError.
    """
    # Django checks settings before `migrate`, and only after it where it makes a test database.
    for problem in configuration.errors():
        raise CommandError(f"{problem.msg} {problem.hint}")
    if alias != configuration.database():
        return
    if configuration.is_managed() or configuration.is_of_tests(alias):
        with _server_needed():
            _migrate(alias, out)
            _declare(alias, out)


def flush(alias: str) -> None:
    """Empty the queues of a test run's database, as `flush` empties the tables of models.

    Other databases keep their messages: nodes and other programs have a part in them.
    """
    if alias == configuration.database() and configuration.is_of_tests(alias):
        statements.rows(alias, statements.PURGE_ALL)


def _migrate(alias: str, out: Any) -> None:
    from skipmq.database import schema, session  # noqa: PLC0415 - the server's.

    where = f"the database {alias!r}"
    try:
        schema.migrate(
            configuration.dsn(alias), lambda name: _say(out, f"  SkipMQ: migrated to {name}")
        )
    except schema.SchemaError as error:
        raise CommandError(
            f"SkipMQ cannot be installed into {where}: {error}. Where others install it, set"
            " SKIPMQ = {'MANAGED': False}"
        ) from error
    except session.Error as error:
        text = session.explain(error, f"DATABASES[{alias!r}]")
        raise CommandError(f"SkipMQ cannot be installed into {where}: {text}") from error


def _declare(alias: str, out: Any) -> None:
    """Create the declared queues; one that is there keeps its attributes, and a difference shows.

    Redrive policies come last, since they name other queues.
    """
    policies = {}
    for name, given in {**_task_queues(), **configuration.queues()}.items():
        with _explained(name):
            stored = _stored(name, given)
            if policy := stored.pop(_POLICY, ""):
                policies[name] = policy
            try:
                statements.rows(alias, statements.CREATE_QUEUE, name, json.dumps(stored))
            except Error as error:
                if sqlstate(error) != "SQ002":
                    raise
                _say(out, f"  SkipMQ: {name!r} stays as it is: {_text(error)}")
    for name, policy in policies.items():
        with _explained(name):
            ((number, present),) = statements.rows(alias, statements.GET_QUEUE, name, *_OWN)
            if not present:
                changes = json.dumps({_POLICY: policy})
                statements.rows(alias, statements.SET_ATTRIBUTES, number, changes)
            elif present != policy:
                _say(out, f"  SkipMQ: {name!r} stays as it is: its {_POLICY} is {present}")


def _task_queues() -> Mapping[str, Mapping[str, Any]]:
    """Return the queues of the backends of Django's tasks that are ours."""
    if not apps.is_installed(configuration.TASKS):
        return {}
    from skipmq.django.tasks.backend import backends  # noqa: PLC0415 - it imports a model.

    return {name: {} for each in backends() for name in each.queues}


def _stored(name: str, given: Mapping[str, Any]) -> dict[str, str]:
    """Return attributes as the database stores them; raise what the service would raise."""
    from skipmq.actions import checks  # noqa: PLC0415 - the server's.
    from skipmq.actions.sqs import attributes  # noqa: PLC0415 - the server's.

    texts = {k: declarations.with_arns(k, declarations.text(v), *_OWN) for k, v in given.items()}
    if name.endswith(".fifo"):
        texts.setdefault("FifoQueue", "true")
    fifo = attributes.is_fifo(texts)
    checks.new_queue_name(name, fifo=fifo)
    return attributes.stored(texts, fifo=fifo)


@contextmanager
def _server_needed() -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise CommandError(
            f"installing the schema of SkipMQ needs its server, and the module {_top(error)} is"
            " missing: pip install 'skipmq[server]'. Or set SKIPMQ = {'MANAGED': False} and have"
            " `skipmq migrate` run where the server is"
        ) from error


@contextmanager
def _explained(queue: str) -> Iterator[None]:
    from skipmq.protocol.errors import SqsError  # noqa: PLC0415 - the server's.

    try:
        yield
    except SqsError as error:
        raise CommandError(f"SKIPMQ['QUEUES'][{queue!r}]: {error.message}") from error
    except Error as error:
        raise CommandError(f"SKIPMQ['QUEUES'][{queue!r}]: {_text(error)}") from error


def _top(error: ModuleNotFoundError) -> str:
    return str(error.name).partition(".")[0]


def _text(error: Exception) -> str:
    return str(error).partition("\n")[0]


def _say(out: Any, text: str) -> None:
    if out is not None:
        out.write(text)
