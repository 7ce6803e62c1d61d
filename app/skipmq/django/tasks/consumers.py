"""Runs tasks: `manage.py skipmq_work` has this consumer among those of other apps."""

import json
import logging
import os
import socket
from asyncio import CancelledError
from datetime import timedelta
from traceback import format_exception
from typing import Any
from uuid import UUID

from django.db import connections
from django.utils import timezone

from skipmq import App, Context, DeadLetter, Queue
from skipmq.client.outcomes import LostMessageError, reason_of
from skipmq.django import configuration, statements
from skipmq.django.tasks.backend import SkipMQBackend, backends, result_of, seconds_until, send
from skipmq.django.tasks.framework import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_finished,
    task_started,
)
from skipmq.django.tasks.models import TaskRun
from skipmq.django.transactions import atomic
from skipmq.protocol import limits

# One in 100 tasks that end deletes results that were kept long enough, 1,000 at most.
_PRUNED_BY, _PRUNED = 100, 1_000
_WORKER = f"{socket.gethostname()}-{os.getpid()}"[:64]
log = logging.getLogger("skipmq.client")

app = App()


class ValueRefusedError(ValueError):
    """A value that a task returned, and that no JSON of PostgreSQL has."""


def run_task(body: dict[str, Any], context: Context) -> None:
    """Run a task unless it has succeeded: a message may come again."""
    run, _ = _runs().get_or_create(
        # One of a schedule has the id of its message.
        pk=body.get("id") or UUID(context.message.id).hex,
        # Of a message that came back from a dead-letter queue after its result was deleted.
        defaults={name: body[name] for name in ("task", "backend", "args", "kwargs")}
        | {"queue_name": context.queue.name, "enqueued_at": timezone.now()},
    )
    if run.status == TaskResultStatus.SUCCESSFUL:
        return
    if seconds := seconds_until(run.run_after):
        # A new message: a receive of this one would count for the queue's redrive policy.
        with atomic(context) as database:
            send(context.queue.name, body, seconds, database)
        return
    backend = _backends.get(run.backend) or _by_queue[context.queue.name]
    now = timezone.now()
    _update(
        run,
        status=TaskResultStatus.RUNNING,
        started_at=run.started_at or now,
        last_attempted_at=now,
        worker_ids=[*run.worker_ids, _WORKER],
    )
    try:
        if backend.is_atomic:
            with atomic(context):
                _succeed(run, _call(run, backend))
        else:
            value = _call(run, backend)
            with atomic(context):
                _succeed(run, value)
    except LostMessageError:
        raise
    except (Exception, SystemExit, CancelledError) as error:  # noqa: BLE001 - its result.
        _fail(run, backend, context, error)
    else:
        _finish(run, backend)


def _call(run: TaskRun, backend: SkipMQBackend) -> Any:
    """Call the task's function; return its value as JSON has it."""
    result = result_of(run)
    task_started.send_robust(type(backend), task_result=result)
    first = (TaskContext(task_result=result),) if result.task.takes_context else ()
    value = normalize_json(result.task.call(*first, *result.args, **result.kwargs))
    try:
        text = json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        raise ValueRefusedError("the value has a lone surrogate") from error
    if rb"\u0000" in text.replace(rb"\\", b""):
        raise ValueRefusedError("the value has the character NUL")
    return value


def _succeed(run: TaskRun, value: Any) -> None:
    status, now = TaskResultStatus.SUCCESSFUL, timezone.now()
    _update(run, return_value=value, status=status, finished_at=now)


def _fail(run: TaskRun, backend: SkipMQBackend, context: Context, error: BaseException) -> None:
    """Note an error; have the task run again, or its message be dead-lettered or deleted."""
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    # As JSON of PostgreSQL can have it.
    text = "".join(format_exception(error)).encode(errors="replace").decode().replace("\0", " ")
    errors = [*run.errors, {"exception_class_path": path, "traceback": text}]
    if len(errors) < backend.attempts and not isinstance(error, ValueRefusedError):
        _update(run, errors=errors, status=TaskResultStatus.READY)
        raise error
    how = {"errors": errors, "status": TaskResultStatus.FAILED, "finished_at": timezone.now()}
    if _has_dead_letter_queue(context.queue.name):
        _update(run, **how)
        _finish(run, backend)
        raise DeadLetter(reason_of(error))
    with atomic(context):
        _update(run, **how)
    _finish(run, backend)


def _finish(run: TaskRun, backend: SkipMQBackend) -> None:
    """Say that a task has ended, and delete old results now and then."""
    try:
        task_finished.send_robust(type(backend), task_result=result_of(run))
        if int(run.pk, 16) % _PRUNED_BY == 0:
            before = timezone.now() - timedelta(days=backend.keep_days)
            old = _runs().filter(finished_at__lt=before).values("pk")[:_PRUNED]
            _runs().filter(pk__in=old).delete()
    except Exception:
        log.exception("after the end of %s", run)


def _update(run: TaskRun, **fields: Any) -> None:
    """Change a result; raise LostMessageError where another has had the task succeed meanwhile."""
    found = _runs().filter(pk=run.pk).exclude(status=TaskResultStatus.SUCCESSFUL)
    if not found.update(**fields):
        raise LostMessageError(f"{run.task} {run.pk} has succeeded elsewhere")
    for name, value in fields.items():
        setattr(run, name, value)


def _has_dead_letter_queue(name: str) -> bool:
    with connections[configuration.database()].cursor() as cursor:
        place = limits.DEFAULT_ACCOUNT, limits.DEFAULT_REGION
        cursor.execute(statements.GET_QUEUE, (name, *place))
        found = cursor.fetchone()
        return found is not None and found[1] is not None


def _runs() -> Any:
    return TaskRun.objects.using(configuration.database())


_backends = {each.alias: each for each in backends()}
_by_queue = {name: each for each in _backends.values() for name in each.queues}
for name, backend in sorted(_by_queue.items()):
    app.consumer(Queue(name, dict), concurrency=backend.concurrency)(run_task)
app.schedules += [schedule for each in _backends.values() for schedule in each.scheduled()]
