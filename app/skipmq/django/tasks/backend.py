"""The backend: a task is a message sent in the caller's transaction, and its result a row."""

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any
from uuid import uuid4

from django.core import checks
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.utils import timezone
from django.utils.module_loading import import_string

from skipmq import Queue
from skipmq.client.queue import Scheduled
from skipmq.django import configuration
from skipmq.django.tasks.framework import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskError,
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    normalize_json,
    task_backends,
    task_enqueued,
)
from skipmq.django.tasks.models import TaskRun

# With their defaults; what they mean stands in the guide.
OPTIONS: dict[str, Any] = {
    "ATTEMPTS": 1, "ATOMIC": False, "CONCURRENCY": 4, "KEEP_DAYS": 14, "SCHEDULES": {},
}  # fmt: skip
# The keys of a schedule: the first two are needed.
_SCHEDULE = ("task", "expression", "zone", "args", "kwargs")
# A message waits for so long, in seconds; one that is for later is sent again then.
_MAX_DELAY = 900
# In seconds; a queue is no calendar, since each task costs a message a quarter of an hour.
_MAX_AHEAD = 3 * 86_400


class SkipMQBackend(BaseTaskBackend):
    """Enqueues tasks in the caller's transaction; `manage.py skipmq_work` runs them."""

    supports_async_task = supports_defer = supports_get_result = True
    # A queue of its own, with workers of its own, is what others wait behind no longer.
    supports_priority = False

    def __init__(self, alias: str, params: Mapping[str, Any]) -> None:
        super().__init__(alias, params)
        given = {**OPTIONS, **self.options}
        self.attempts, self.concurrency = given["ATTEMPTS"], given["CONCURRENCY"]
        self.is_atomic, self.keep_days = given["ATOMIC"], given["KEEP_DAYS"]
        self.schedules: Mapping[str, Any] = given["SCHEDULES"]

    def problems(self) -> Sequence[Any]:
        """Return what is wrong with the backend's entry of TASKS, for Django's system checks."""
        place = f"TASKS[{self.alias!r}]"
        found = [
            (f"{place} has the unknown option {name!r}.", f"Known are {', '.join(OPTIONS)}.")
            for name in self.options
            if name not in OPTIONS
        ]
        found += [
            (f"{place} has {name} {value!r}.", "It is a number from 1 on.")
            for name, value in self.options.items()
            if type(OPTIONS.get(name)) is int and (type(value) is not int or value < 1)
        ]
        known = self.schedules if isinstance(self.schedules, dict) else {"": self.schedules}
        found += [
            (
                f"{place} has the schedule {name!r}: {given!r}.",
                'It is {"task": "shop.tasks.report", "expression": "30 2 * * *"}, and may have'
                " zone, args and kwargs.",
            )
            for name, given in known.items()
            if not isinstance(given, dict) or not {*_SCHEDULE[:2]} <= given.keys() <= {*_SCHEDULE}
        ]
        if not self.queues:
            text = f"{place} has no QUEUES, by which workers know what to receive from."
            found.append((text, "Name each queue of its tasks."))
        found += [
            (
                f"{place} has the FIFO queue {name!r}.",
                "Tasks have no groups: name a standard queue.",
            )
            for name in self.queues
            if name.endswith(".fifo")
        ]
        return [checks.Error(text, hint=hint, id="skipmq.E003") for text, hint in found]

    def validate_task(self, task: Task) -> None:
        """Raise InvalidTask for what cannot be run, or not at its time."""
        super().validate_task(task)
        if seconds_until(task.run_after) > _MAX_AHEAD:
            raise InvalidTask("run_after is at most three days ahead: a message is no calendar.")

    def enqueue(self, task: Task, args: Sequence[Any], kwargs: Mapping[str, Any]) -> TaskResult:
        """Send the task's message in the transaction of the broker's database that is open."""
        self.validate_task(task)
        database = configuration.database()
        run = TaskRun(
            id=uuid4().hex,
            task=task.module_path,
            backend=self.alias,
            queue_name=task.queue_name,
            args=normalize_json(args),
            kwargs=normalize_json(kwargs),
            status=TaskResultStatus.READY,
            run_after=task.run_after,
            enqueued_at=timezone.now(),
        )
        body = {name: getattr(run, name) for name in ("id", "task", "backend", "args", "kwargs")}
        with transaction.atomic(using=database):
            run.save(using=database, force_insert=True)
            send(run.queue_name, body, seconds_until(run.run_after), database)
        result = _result(run, task)
        task_enqueued.send(type(self), task_result=result)
        return result

    def scheduled(self) -> Iterator[Scheduled]:
        """Yield its schedules; raise ImportError for an unknown task, InvalidTask for another's."""
        for name, given in self.schedules.items():
            task = import_string(given["task"]).using(backend=self.alias)
            queue = Queue(task.queue_name, dict)
            body = {
                "task": task.module_path,
                "backend": self.alias,
                "args": normalize_json(given.get("args", [])),
                "kwargs": normalize_json(given.get("kwargs", {})),
            }
            zone = given.get("zone", "UTC")
            yield Scheduled(name, queue, given["expression"], queue.encoded(body), zone, None, {})

    def get_result(self, result_id: str) -> TaskResult:
        """Return what is known of a task; raise TaskResultDoesNotExist."""
        run = TaskRun.objects.using(configuration.database()).filter(pk=result_id).first()
        if run is None:
            raise TaskResultDoesNotExist(result_id)
        return result_of(run)


def backends() -> list[SkipMQBackend]:
    """Return the backends in TASKS that are of this class."""
    return [each for each in task_backends.all() if isinstance(each, SkipMQBackend)]


def check(**_: Any) -> Sequence[Any]:
    """Return what is wrong with TASKS: django-tasks looks only where its app is installed."""
    return [problem for each in backends() for problem in each.problems()]


def result_of(run: TaskRun) -> TaskResult:
    """Return a row as Django has results; raise ImportError where its task is no longer there."""
    task = import_string(run.task)
    # Where the backend or the queue is no longer in TASKS, it is the task as it is declared.
    with suppress(ImproperlyConfigured, InvalidTask):
        task = replace(task, queue_name=run.queue_name, backend=run.backend)
    return _result(run, task)


def _result(run: TaskRun, task: Task) -> TaskResult:
    result = TaskResult(
        task=task,
        id=run.id,
        status=TaskResultStatus(run.status),
        enqueued_at=run.enqueued_at,
        started_at=run.started_at,
        finished_at=run.finished_at,
        last_attempted_at=run.last_attempted_at,
        args=run.args,
        kwargs=run.kwargs,
        backend=run.backend,
        errors=[TaskError(**each) for each in run.errors],
        worker_ids=run.worker_ids,
    )
    object.__setattr__(result, "_return_value", run.return_value)
    return result


def send(queue: str, body: Mapping[str, Any], seconds: int, database: str) -> None:
    """Send a task's message in the open transaction, to be received after `seconds` at most."""
    delay = min(seconds, _MAX_DELAY) or None
    Queue(queue, dict).send(dict(body), using=database, delay=delay)


def seconds_until(time: Any) -> int:
    """Return the seconds until a time; 0 for none, and for one that is over."""
    return 0 if time is None else max(math.ceil((time - timezone.now()).total_seconds()), 0)
