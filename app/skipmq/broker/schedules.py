"""Schedules: when their ticks are, and what the database keeps of them.

The database's clock decides what is due; a node computes the time after it in Python, and the
statement that sends the message sets it, if the schedule's time is still the one it was computed
for. So each tick sends one message, on however many nodes.
"""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Annotated, Any, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
from cronsim import CronSim, CronSimError

from skipmq.database.partitions import Database
from skipmq.database.pool import Pool
from skipmq.database.retry import DatabaseError
from skipmq.database.statement import (
    INTEGER,
    JSONB,
    TEXT,
    TIME,
    Search,
    Statement,
    columns,
    milliseconds,
)
from skipmq.protocol import errors
from skipmq.protocol.identity import QueueName
from skipmq.telemetry.logs import log

# Ticks that were missed while no node ran, of which the last are made up for.
CAUGHT_UP = 100
# Schedules that one run advances, and the seconds until the next run where none is due earlier.
ADVANCED = 100
LONGEST_WAIT = 5.0
_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_EVERY = re.compile(r"every(?: ([1-9][0-9]{0,5}))? (second|minute|hour|day|week)s?")
_RATE = re.compile(r"rate\(([1-9][0-9]{0,5}) (minute|hour|day)s?\)")
_ONCE = re.compile(r"at(?: (\S+)|\((\S+)\))")
_FIELDS = 5
# Seconds until schedules that another node has are read again.
_PAUSE = 0.5
_LONGEST_EVERY = 366 * 86_400
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ScheduleError(ValueError):
    """An expression or a zone that no schedule can have; the text is one sentence."""


class Times:
    """The ticks of an expression in a time zone; raises ScheduleError."""

    def __init__(self, expression: str, zone: str = "UTC") -> None:
        self.expression = expression.strip()
        try:
            self.zone = ZoneInfo(zone)
        except (KeyError, ValueError, OSError):
            raise ScheduleError(
                f"There is no time zone {zone!r}: use a name such as Europe/Berlin or UTC."
            ) from None
        self._seconds = self._interval()
        self._once = self._moment()
        if self._seconds is None and self._once is None:
            self._check_cron()

    def after(self, moment: datetime) -> Iterator[datetime]:
        """Yield the ticks after a moment, in UTC."""
        if self._once is not None:
            return iter([self._once] if self._once > moment else [])
        if self._seconds is not None:
            return self._multiples(moment, 1)
        return _in_utc(CronSim(self.expression, moment.astimezone(self.zone)))

    def before(self, moment: datetime) -> Iterator[datetime]:
        """Yield the ticks up to a moment, the last first, in UTC."""
        if self._once is not None:
            return iter([self._once] if self._once <= moment else [])
        if self._seconds is not None:
            return self._multiples(moment, -1)
        # It begins with the minute before the one that it is given.
        end = (moment + timedelta(minutes=1)).astimezone(self.zone)
        found = _in_utc(CronSim(self.expression, end, reverse=True))
        return (each for each in found if each <= moment)

    def _multiples(self, moment: datetime, step: int) -> Iterator[datetime]:
        assert self._seconds is not None
        number = (moment - _EPOCH) // timedelta(seconds=self._seconds) + (step > 0)
        while True:
            yield _EPOCH + timedelta(seconds=number * self._seconds)
            number += step

    def _interval(self) -> int | None:
        found = _EVERY.fullmatch(self.expression) or _RATE.fullmatch(self.expression)
        if found is None:
            return None
        seconds = int(found[1] or 1) * _UNITS[found[2]]
        if seconds > _LONGEST_EVERY:
            raise ScheduleError(f"{self.expression!r} is more than a year.")
        return seconds

    def _moment(self) -> datetime | None:
        if (found := _ONCE.fullmatch(self.expression)) is None:
            return None
        try:
            moment = datetime.fromisoformat(found[1] or found[2])
            moment = moment if moment.tzinfo else moment.replace(tzinfo=self.zone)
            return moment.astimezone(UTC)
        except (ValueError, OverflowError):
            raise ScheduleError(
                f"{self.expression!r} names no time: write it as in at 2027-01-31T08:00."
            ) from None

    def _check_cron(self) -> None:
        if len(self.expression.split()) != _FIELDS:
            raise ScheduleError(
                f"{self.expression!r} is no schedule: use the five fields of cron, every 5 minutes,"
                " or at 2027-01-31T08:00."
            )
        try:
            next(CronSim(self.expression, _EPOCH + timedelta(days=20_000)))
        except CronSimError as error:
            reason = str(error).removeprefix("Bad ")
            raise ScheduleError(
                f"The cron expression {self.expression!r} never fires: its {reason} is impossible."
            ) from None
        except StopIteration:
            raise ScheduleError(f"The cron expression {self.expression!r} never fires.") from None


def _in_utc(found: Iterator[datetime]) -> Iterator[datetime]:
    return (each.astimezone(UTC) for each in found)


class Schedule(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A schedule; times are in milliseconds since 1970."""

    name: str
    queue_name: Annotated[str, "queue"]
    expression: str
    zone: str
    message_body: Annotated[str, "body"]
    jitter_seconds: Annotated[int, "jitter"]
    catch_up: str
    maximum_failures: Annotated[int, "max_failures"]
    paused: bool
    failures: int
    is_planned: Annotated[bool, "planned"]
    read_timestamp: Annotated[int, milliseconds("read_at")]
    next_timestamp: Annotated[int | None, milliseconds("next_at")] = None
    end_timestamp: Annotated[int | None, milliseconds("ends_at")] = None
    failure: str | None = None
    message_group_id: Annotated[str | None, "group_id"] = None
    message_attributes: Annotated[str | None, "attributes"] = None

    def preview(self, count: int) -> list[int]:
        """Return the next ticks, as milliseconds since 1970."""
        if self.next_timestamp is None:
            return []
        end = self.end_timestamp or 1 << 62
        try:
            times = Times(self.expression, self.zone)
        except ScheduleError:
            return []
        moment = _EPOCH + timedelta(milliseconds=self.read_timestamp)
        found = (round(each.timestamp() * 1000) for each in islice(times.after(moment), count))
        return [each for each in found if each <= end]


class Tick(msgspec.Struct, rename="pascal", omit_defaults=True):
    """A tick that was: when it was due and ran, in milliseconds since 1970, and what it sent."""

    due_timestamp: Annotated[int, milliseconds("due_at")]
    ran_timestamp: Annotated[int, milliseconds("ran_at")]
    message_id: Annotated[str | None, "message_id::text"] = None
    failure: str | None = None


class _Due(NamedTuple):
    account: str
    region: str
    name: str
    queue: str
    expression: str
    zone: str
    catch_up: str
    planned: bool
    next_at: Annotated[int, "(extract(epoch from next_at) * 1000000)::bigint"]
    ends_at: Annotated[int | None, "(extract(epoch from ends_at) * 1000000)::bigint"]
    read_at: Annotated[int, "(extract(epoch from read_at) * 1000000)::bigint"]
    wait: float | None


_DUE = Statement(f"select {columns(_Due)} from skipmq.due_schedules($1)", INTEGER)
_ADVANCE = Statement(
    "select skipmq.advance_schedule($1, $2, $3, $4, $5, $6, $7)",
    TEXT, TEXT, TEXT, TIME, TIME, TIME, TEXT,
)  # fmt: skip
_NOTIFY = Statement("select pg_notify('skipmq', $1) is null", TEXT)
_CREATE = Statement(
    "select skipmq.create_schedule($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    TEXT, TEXT, TEXT, TEXT, TEXT, JSONB, TEXT, INTEGER, TEXT, TIME, INTEGER, TEXT, TEXT,
)  # fmt: skip
_CHANGE = Statement(
    "select skipmq.change_schedule($1, $2, $3, $4)", TEXT, TEXT, TEXT, TEXT, repeatable=False
)
_LIST = Search(
    f"select {columns(Schedule)} from skipmq.list_schedules($1, $2, $3, $4, $5)",
    TEXT, TEXT, TEXT, INTEGER, TEXT,
)  # fmt: skip
_TICKS = Search(
    f"select {columns(Tick)} from skipmq.schedule_ticks($1, $2, $3, $4)", TEXT, TEXT, TEXT, INTEGER
)


async def run_due(database: Pool) -> tuple[int, float]:
    """Send what is due; return the number of schedules advanced, and the seconds until the next.

    For the janitor of any number of nodes.
    """
    *due, last = [_Due(*row) for row in await database.rows(_DUE, (ADVANCED,))]
    advanced = 0
    for each in due:
        tick, after, failure = _step(each)
        parameters = (*each[:3], each.next_at, tick, after, failure)
        try:
            ((done,),) = await database.rows(_ADVANCE, parameters)
        except DatabaseError:
            log.exception("a schedule cannot be run for now", schedule=each.name)
            continue
        advanced += done
        if done and failure:
            log.warning("a schedule ended", schedule=each.name, reason=failure)
        if done and tick:
            arn = QueueName(each.account, each.region, each.queue).arn
            await database.rows(_NOTIFY, (f"schedules sent {arn}",))
    # What was advanced may be due again; what was not, another node has.
    wait = LONGEST_WAIT if last.wait is None else min(last.wait, LONGEST_WAIT)
    return advanced, min(wait, 0.0 if advanced else _PAUSE) if due else wait


def _step(due: _Due) -> tuple[int | None, int | None, str | None]:
    """Return the tick to send, if any, the time of the next one, and why the schedule ends."""
    try:
        times = Times(due.expression, due.zone)
    except ScheduleError as error:
        return None, None, str(error)
    first, end = _moment(due.next_at), due.ends_at
    now = _moment(due.read_at if end is None else min(due.read_at, end))
    tick: datetime | None = None
    if due.planned:
        caught_up = CAUGHT_UP if due.catch_up == "all" else 1
        missed = list(islice(times.before(now), caught_up))
        tick = max(first, missed[-1]) if missed else first
    # Otherwise from its creation on, or its resumption: no node may have run since; or from now on,
    # where the clock was set back.
    after = next(times.after(tick or min(first, now)), None)
    if after is None and tick is None:
        return None, None, "The time has passed."
    if after is not None and end is not None and after > _moment(end):
        after = None
    return _number(tick), _number(after), None


def _moment(microseconds: int) -> datetime:
    return _EPOCH + timedelta(microseconds=microseconds)


def _number(moment: datetime | None) -> int | None:
    return None if moment is None else (moment - _EPOCH) // timedelta(microseconds=1)


async def create(database: Database, parameters: tuple[Any, ...], deadline: float) -> bool:
    """Create a schedule or change its properties; return whether it is new."""
    ((is_new,),) = await database.rows(_CREATE, parameters, deadline=deadline)
    return bool(is_new)


async def change(  # noqa: PLR0913, PLR0917 - the parameters of change_schedule.
    database: Database, account: str, region: str, name: str, how: str, deadline: float
) -> None:
    """Pause, resume, run or delete a schedule; raise errors.ResourceNotFoundException."""
    parameters = (name, how, account, region)
    ((changed,),) = await database.rows(_CHANGE, parameters, deadline=deadline)
    if not changed:
        raise errors.ResourceNotFoundException(f"There is no schedule {name!r}.")


async def listed(  # noqa: PLR0913, PLR0917 - the parameters of list_schedules.
    database: Database,
    account: str,
    region: str,
    after: str,
    limit: int,
    deadline: float,
    name: str | None = None,
) -> list[Schedule]:
    """Return schedules by name, after a name, or that of a name."""
    rows = await database.rows(_LIST, (account, region, after, limit, name), deadline=deadline)
    return [Schedule(*row) for row in rows]


async def ticks(  # noqa: PLR0913, PLR0917 - the parameters of schedule_ticks.
    database: Database, account: str, region: str, name: str, limit: int, deadline: float
) -> list[Tick]:
    """Return the last ticks of a schedule, the newest first."""
    rows = await database.rows(_TICKS, (account, region, name, limit), deadline=deadline)
    return [Tick(*row) for row in rows]
