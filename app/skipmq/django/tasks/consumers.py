"""Runs tasks: `manage.py skipmq_work` has this consumer among those of other apps."""

import os
import socket
from datetime import timedelta
from traceback import format_exception
from typing import Any

from django.db import connections
from django.utils import timezone

from skipmq import App, Context, DeadLetter, Queue, Retry
from skipmq.client.outcomes import LostMessageError, reason_of
from skipmq.django import configuration, statements
from skipmq.django.tasks.backend import SkipMQBackend, result_of, seconds_until
from skipmq.django.tasks.framework import (
    TaskContext,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_finished,
    task_started,
)
from skipmq.django.tasks.models import TaskRun
from skipmq.django.transactions import atomic
from skipmq.protocol import limits

# The longest time for which a message is hidden, in seconds.
_MAX_HIDDEN = 43_200
# One in 100 tasks that end deletes results that were kept long enough, 1,000 at most.
_PRUNED_BY, _PRUNED = 100, 1_000
_WORKER = f"{socket.gethostname()}-{os.getpid()}"[:64]

app = App()


def run_task(body: dict[str, Any], context: Context) -> None:
    """Run a task unless it has succeeded: a message may come again."""
    run, _ = _runs().get_or_create(
        pk=body["id"],
        # Of a message that came back from a dead-letter queue after its result was deleted.
        defaults={name: body[name] for name in ("task", "backend", "args", "kwargs")}
        | {"queue_name": context.queue.name, "enqueued_at": timezone.now()},
    )
    if run.status == TaskResultStatus.SUCCESSFUL:
        return
    if seconds := seconds_until(run.run_after):
        raise Retry("its time has not come", after=min(seconds, _MAX_HIDDEN))
    backend = task_backends[run.backend]
    run.status, run.last_attempted_at = TaskResultStatus.RUNNING, timezone.now()
    run.started_at = run.started_at or run.last_attempted_at
    run.worker_ids = [*run.worker_ids, _WORKER]
    _save(run)
    try:
        if backend.is_atomic:
            with atomic(context):
                _succeed(run, _call(run))
        else:
            value = _call(run)
            with atomic(context):
                _succeed(run, value)
    except LostMessageError:
        raise
    except Exception as error:  # noqa: BLE001 - what a task raises is its result.
        _fail(run, backend, context, error)
    else:
        _finish(run, backend)


def _call(run: TaskRun) -> Any:
    """Call the task's function; return its value as JSON has it."""
    result = result_of(run)
    task_started.send(type(task_backends[run.backend]), task_result=result)
    first = (TaskContext(task_result=result),) if result.task.takes_context else ()
    return normalize_json(result.task.call(*first, *result.args, **result.kwargs))


def _succeed(run: TaskRun, value: Any) -> None:
    run.return_value = value
    run.status, run.finished_at = TaskResultStatus.SUCCESSFUL, timezone.now()
    _save(run)


def _fail(run: TaskRun, backend: SkipMQBackend, context: Context, error: Exception) -> None:
    """Note an error; have the task run again, or its message be dead-lettered or deleted."""
    path = f"{type(error).__module__}.{type(error).__qualname__}"
    found = {"exception_class_path": path, "traceback": "".join(format_exception(error))}
    run.errors, run.return_value = [*run.errors, found], None
    if len(run.errors) < backend.attempts:
        run.status, run.finished_at = TaskResultStatus.READY, None
        _save(run)
        raise error
    run.status, run.finished_at = TaskResultStatus.FAILED, timezone.now()
    if _has_dead_letter_queue(run.queue_name):
        _save(run)
        _finish(run, backend)
        raise DeadLetter(reason_of(error))
    with atomic(context):
        _save(run)
    _finish(run, backend)


def _finish(run: TaskRun, backend: SkipMQBackend) -> None:
    """Say that a task has ended, and delete old results now and then."""
    task_finished.send(type(backend), task_result=result_of(run))
    if int(run.pk, 16) % _PRUNED_BY == 0:
        before = timezone.now() - timedelta(days=backend.keep_days)
        old = _runs().filter(finished_at__lt=before).values("pk")[:_PRUNED]
        _runs().filter(pk__in=old).delete()


def _has_dead_letter_queue(name: str) -> bool:
    with connections[configuration.database()].cursor() as cursor:
        place = limits.DEFAULT_ACCOUNT, limits.DEFAULT_REGION
        cursor.execute(statements.GET_QUEUE, (name, *place))
        found = cursor.fetchone()
        return found is not None and found[1] is not None


def _runs() -> Any:
    return TaskRun.objects.using(configuration.database())


def _save(run: TaskRun) -> None:
    run.save(using=configuration.database())


for each in task_backends.all():
    if isinstance(each, SkipMQBackend):
        for queue in sorted(each.queues - {known.queue.name for known in app.consumers}):
            app.consumer(Queue(queue, dict), concurrency=each.concurrency)(run_task)
