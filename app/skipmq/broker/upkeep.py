"""Maintenance of the database; a job that another node is running does nothing."""

import shutil
from collections.abc import Sequence
from time import time as own_clock  # noqa: TID251 - compared with the database's.
from typing import NamedTuple

from skipmq.config.settings import Settings
from skipmq.database.pool import Pool
from skipmq.database.statement import BOOLEAN, INTEGER, INTERVAL, Search, Statement
from skipmq.telemetry.logs import log

CHUNK = 5_000
# Each emptied FIFO group holds a lock until the end of the transaction.
EXPIRED = 1_000
# A cancelled task stops after this number of messages.
MOVED = 1_000
DAYS_AHEAD = 7
# The limit of a job that does all its work in one run.
UNLIMITED = 2**31

_END_LONG_SNAPSHOTS = Statement(
    "select pid, role, application_name, extract(epoch from held)::float8"
    " from skipmq.end_long_snapshots($1)",
    INTERVAL,
)
_OLDEST_SNAPSHOT = Statement(
    "select extract(epoch from clock_timestamp() - began)::float8, session"
    " from skipmq.oldest_snapshot()"
)
_DATA_DIRECTORY = Search("select data_directory from skipmq.database_overview()")
_DATABASE_STATISTICS = Search(
    "select name, label, value from skipmq.database_statistics() where value is not null"
)
_CLOCK = Statement("select extract(epoch from clock_timestamp())::float8")
_UNARCHIVED = Statement("select skipmq.count_unarchived_days(make_interval(days => $1))", INTEGER)


class Job(NamedTuple):
    """A SQL function that returns how much it did; due every `interval` seconds.

    It is due again at once when it did `limit`, since there may be more to do.
    """

    name: str
    interval: float
    statement: Statement
    parameters: tuple[object, ...]
    limit: int = CHUNK


# Seconds from the start of a move task to its first message: as on AWS a client may cancel it.
MOVE_DELAY = 0.5
MOVES = Job(
    "move messages",
    1.0,
    Statement("select skipmq.advance_move_tasks($1, $2)", INTEGER, INTERVAL),
    (MOVED, MOVE_DELAY),
    MOVED,
)
_FOLD = Statement("select skipmq.fold_counts($1)", BOOLEAN)


def _chunks(name: str, interval: float, call: str) -> Job:
    """Return the job of a function that does at most CHUNK in one call."""
    return Job(name, interval, Statement(f"select {call}", INTEGER), (CHUNK,))


def jobs(settings: Settings) -> list[Job]:
    """Return the jobs of a node with these settings, in the order of their first run."""
    keep = settings.history_retention
    create = Statement("select skipmq.create_history_partitions($1)", INTEGER)
    drop = Statement(
        "select skipmq.drop_history_partitions(make_interval(days => $1), $2)", INTEGER, BOOLEAN
    )
    expire = Statement("select skipmq.expire_messages($1)", INTEGER)
    expire_audit = Statement(
        "select skipmq.expire_audit_records(make_interval(days => $1), $2)", INTEGER, INTEGER
    )
    found = [
        # First, since messages that other jobs settle need a partition.
        Job("create partitions", 3600.0, create, (DAYS_AHEAD,)),
        MOVES,
        Job("fold counts", 1.0, _FOLD, (False,), UNLIMITED),
        Job("fold all counts", 60.0, _FOLD, (True,), UNLIMITED),
        _chunks("mark noisy tenants", 1.0, "skipmq.mark_noisy($1)"),
        Job("sum minutes", 15.0, Statement("select skipmq.sum_minutes()"), (), UNLIMITED),
        _chunks("clear retired", 1.0, "skipmq.clear_retired($1)"),
        Job("expire messages", 5.0, expire, (EXPIRED,), EXPIRED),
        _chunks("forget sends", 5.0, "skipmq.expire_deduplication($1)"),
        _chunks("forget sessions", 3600.0, "skipmq.expire_ended_sessions($1)"),
        _chunks("expire staged messages", 3600.0, "skipmq.expire_staged_messages($1)"),
        _chunks("expire subscriptions", 600.0, "skipmq.expire_subscriptions($1)"),
        _chunks("forget consumers", 60.0, "skipmq.expire_consumers($1)"),
        Job("forget damage", 15.0, Statement("select skipmq.expire_damage()"), (), UNLIMITED),
        # Once an hour, because days are dropped.
        Job("drop partitions", 3600.0, drop, (keep, bool(settings.archive))),
    ]
    if days := settings.audit_days:
        found.append(Job("expire audit records", 3600.0, expire_audit, (days, CHUNK)))
    return found


async def run(database: Pool, job: Job) -> int:
    """Run a job; return how much it did."""
    return await _number(database, job.statement, job.parameters)


async def end_long_snapshots(database: Pool, seconds: float) -> int:
    """Terminate readers' sessions that have held a snapshot for longer, and log each.

    Raises errors.InsufficientPrivilege where the schema's owner lacks the right to.
    """
    ended = await database.rows(_END_LONG_SNAPSHOTS, (seconds,))
    for pid, role, name, held in ended:
        log.warning(
            "ended a reader that held a snapshot for too long",
            session=pid,
            role=role,
            application=name,
            seconds=round(held),
            limit=seconds,
        )
    return len(ended)


async def oldest_snapshot(database: Pool) -> tuple[float, str]:
    """Return the age in seconds of the oldest snapshot that limits vacuum, and its session."""
    ((seconds, session),) = await database.rows(_OLDEST_SNAPSHOT)
    return float(seconds or 0), session or ""


async def clock_skew(database: Pool) -> float:
    """Return the seconds by which this machine's clock is ahead of the database's."""
    began = own_clock()
    ((now,),) = await database.rows(_CLOCK)
    return (began + own_clock()) / 2 - float(now)


async def count_unarchived_days(database: Pool, keep_days: int) -> int:
    """Return the number of older days of the history that are kept until their export."""
    return await _number(database, _UNARCHIVED, (keep_days,))


async def database_statistics(database: Pool) -> list[tuple[str, str, float]]:
    """Return the database's metrics: name, label and value of each."""
    rows = await database.rows(_DATABASE_STATISTICS)
    return [(name, label, value) for name, label, value in rows]


async def free_bytes(database: Pool) -> int | None:
    """Return the free bytes of the disk of the server, None where that is not known here."""
    ((folder,),) = await database.rows(_DATA_DIRECTORY)
    found = disk(folder)
    return found and found.free


def disk(folder: str | None) -> shutil._ntuple_diskusage | None:
    """Return the bytes of the disk of a server on this machine, where its folder is visible."""
    try:
        return None if folder is None else shutil.disk_usage(folder)
    except OSError:
        return None


async def _number(database: Pool, statement: Statement, parameters: Sequence[object]) -> int:
    ((number,),) = await database.rows(statement, parameters)
    return int(number)
