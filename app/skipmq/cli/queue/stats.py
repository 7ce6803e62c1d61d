"""The `queue stats` command and its table."""

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from math import ceil
from typing import Any, get_args

import click
import msgspec
from msgspec import structs
from rich.console import Group
from rich.table import Table
from rich.text import Text

from skipmq.broker.statistics import Order, QueueMinute, QueueStatistics
from skipmq.cli import place
from skipmq.cli.environment import configuration
from skipmq.cli.output import Column, cell, limit_option, listed, printing_json, shown_time
from skipmq.cli.source import Source, open_source, queue_names

_MINUTES = 60
# The number of recent minutes with activity in the table of a queue.
_ROWS = 10
_BLOCKS = "▁▂▃▄▅▆▇█"
_STEP, _UNITS = 1000.0, ("", "k", "M", "G")
_SPANS = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "m"), (60, "m", 1, "s"))


def count(number: float | None) -> str:
    """Format a number such as `950`, `1.2k` or `34M`; return an empty text for None."""
    if number is None:
        return ""
    for unit in _UNITS:
        if round(number) < _STEP:
            return f"{number:.1f}{unit}" if unit and number < 9.95 else f"{number:.0f}{unit}"  # noqa: PLR2004 - two figures.
        number /= _STEP
    return f"{number:.0f}T"


def rate(messages: float | None) -> str:
    """Format messages per second such as `0`, `<0.1`, `3.4` or `1.2k`; "" for None."""
    if messages is None:
        return ""
    if 0 < messages < 0.05:  # noqa: PLR2004 - would be rounded to 0.
        return "<0.1"
    return f"{messages:.1f}" if 0 < messages < 9.95 else count(messages)  # noqa: PLR2004


def per_second(per_minute: float | None) -> float | None:
    """Return the rate per second of one per minute."""
    return None if per_minute is None else per_minute / 60


def duration(seconds: float | None) -> str:
    """Format a time such as `42s`, `3m 20s`, `2h 5m` or `3d 4h`; return an empty text for None."""
    if seconds is None:
        return ""
    whole = int(seconds)
    for long, unit, short, part in _SPANS:
        if whole >= long:
            return f"{whole // long}{unit} {whole % long // short}{part}"
    return f"{whole}s"


def _rate(per_minute: float) -> str:
    return rate(per_second(per_minute))


# Rates of the record, and their names in JSON, where they are per second.
_RATES = {
    "sent_per_minute": "send_rate",
    "received_per_minute": "receive_rate",
    "deleted_per_minute": "delete_rate",
}
# What an answer does not have is None.
_UNKNOWN = dict.fromkeys(QueueStatistics.__struct_encode_fields__)
_COLUMNS = (
    Column("queue"),
    Column("visible", 1, is_number=True, form=count),
    Column("in\nflight", 6, is_number=True, of="in_flight", form=count),
    Column("delayed", 9, is_number=True, form=count),
    Column("oldest", 5, is_number=True, form=duration),
    Column("sent\n/s", 2, is_number=True, of="sent_per_minute", form=_rate),
    Column("received\n/s", 4, is_number=True, of="received_per_minute", form=_rate),
    Column("deleted\n/s", 3, is_number=True, of="deleted_per_minute", form=_rate),
    Column("dead-\nlettered", 7, is_number=True, of="dead_lettered", form=count),
    Column("expired", 8, is_number=True, form=count),
)


def statistics(
    node: Source, limit: int, **asked: Any
) -> tuple[list[QueueStatistics], QueueStatistics]:
    """Return the statistics of up to `limit` queues, and the sum of the others."""
    found: list[QueueStatistics] = []
    for page in _pages(node, limit, **asked):
        queues, others = records(page, len(found))
        found += queues
    return found, others


def records(
    page: Mapping[str, Any], offset: int = 0
) -> tuple[list[QueueStatistics], QueueStatistics]:
    """Return the queues of an answer, and the sum of the others.

    Of a node that is called over HTTP the sum has their number only.
    """
    queues = [*map(_record, page["Queues"])]
    number = max(page["Matches"] - offset - len(queues), 0)
    return queues, _record(page.get("Others", {"Queues": number}))


def _pages(node: Source, limit: int, **asked: Any) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        most = min(limit - offset, node.counted_queues)
        page = node.act("ListQueueStatistics", Offset=offset, MaxResults=most, **asked)
        yield page
        offset += len(page["Queues"])
        if not page["Queues"] or offset >= min(limit, page["Matches"]):
            return


def _record(shown: Mapping[str, Any]) -> QueueStatistics:
    found = msgspec.convert({**_UNKNOWN, "Queues": 1, **shown}, QueueStatistics)
    counts = (found.visible, found.in_flight, found.delayed)
    if found.messages is None and None not in counts:
        found.messages = sum(filter(None, counts))
    return found


def statistics_table(queues: Sequence[QueueStatistics], others: QueueStatistics) -> Table:
    """Return the table of queues; its last row sums up the other queues, if any.

    Those of the settings' account and region are shown by name alone.
    """
    settings = configuration().settings
    own = (settings.account, settings.region)
    sums: list[str] = []
    if others.queues:
        name = f"{count(others.queues)} others"
        if others.messages is not None:
            name += f", {count(others.messages)} messages"
        sums = [name, *(each.text(others) for each in _COLUMNS[1:])]
    named = (structs.replace(each, queue=_name(each, own)) for each in queues)
    return listed(_COLUMNS, named, last=sums)


def _name(each: QueueStatistics, own: tuple[str, str]) -> str:
    """Return the name of a queue, with its account and region if they are others than `own`."""
    is_own = each.account is None or (each.account, each.region) == own
    place = "" if is_own else f" ({each.account}, {each.region})"
    return f"{each.queue}{place}{' (paused)' if each.paused else ''}"


order_option = click.option(
    "--order",
    type=click.Choice(get_args(Order)),
    default="rate",
    show_default=True,
    help="Sort order; rate: messages sent and deleted per second.",
)


@click.command("stats")
@click.argument("name", required=False, callback=place.name_of, shell_complete=queue_names)
@place.reached
@order_option
@limit_option(20, 1000, "Maximum number of queues; the rest are one row.")
@click.option("--search", default="", metavar="TEXT", help="Only queues whose names contain TEXT.")
@printing_json
def queue_stats(name: str | None, order: Order, limit: int, search: str) -> tuple[Any, Any]:
    """Show statistics of the busiest queues, or of the queue NAME.

    Without NAME and a place all accounts and regions are shown; by --endpoint, the account of the
    key and its region. Rates are messages per second over the last one to two minutes. Statistics
    are up to a second old.
    """
    with open_source(everywhere=name is None) as node:
        if name is not None:
            return _activity(node, name)
        queues, others = statistics(node, limit, Search=search or None, Order=order)
    sums = {key: value for key, value in _plain(others).items() if value is not None}
    result = {"queues": [*map(_plain, queues)], "others": sums}
    shown = statistics_table(queues, others) if queues else "no matching queues"
    return result, shown


def _activity(node: Source, name: str) -> tuple[Any, Any]:
    """Return the statistics of a queue, and what happened in it in the last minutes."""
    found = node.act("GetQueueActivity", QueueUrl=name, Minutes=_MINUTES, Times=False)
    minutes = msgspec.convert(found["Minutes"], list[QueueMinute])
    pages = _pages(node, sys.maxsize, Search=name)
    named = (each for page in pages for each in page["Queues"] if each["QueueName"] == name)
    queue = next(named, None)
    if queue is None:
        raise click.ClickException(f"queue {name} is not listed")
    result = _plain(_record(queue))
    table = Table("statistic", "value", box=None, pad_edge=False)
    for field, value in result.items():
        if field not in ("id", "queues"):
            formatted = _FORMATS.get(field, cell)
            table.add_row(field.replace("_", " "), formatted(value))
    result["minutes"] = [
        structs.asdict(each) | {"minute": shown_time(each.minute)} for each in minutes
    ]
    return result, Group(table, "", *_minutes(minutes, found["Clock"]))


def _plain(each: QueueStatistics) -> dict[str, Any]:
    """Return the statistics of a queue for JSON, with rates per second."""
    return {
        _RATES.get(name, name): per_second(value) if name in _RATES else value
        for name, value in structs.asdict(each).items()
        if name != "minutes"
    }


def _minutes(minutes: Sequence[QueueMinute], now: int) -> list[Any]:
    """Return sparklines of the last hour and a table of the last minutes with activity.

    `now` is in seconds since 1970.
    """
    if not minutes:
        return [f"no activity in the last {_MINUTES} minutes"]
    first = now // 60 * 60 - (_MINUTES - 1) * 60
    lines = Table(f"last {_MINUTES} minutes", "", "max per minute", box=None, pad_edge=False)
    for field in ("sent", "deleted"):
        by_minute = {each.minute: getattr(each, field) for each in minutes}
        numbers = [by_minute.get(first + 60 * n, 0) for n in range(_MINUTES)]
        lines.add_row(field, Text(_sparkline(numbers), no_wrap=True), count(max(numbers)))
    table = Table("minute (UTC)", box=None, pad_edge=False)
    for heading in ("sent", "received", "deleted", "dead-lettered", "expired", "messages"):
        table.add_column(heading, justify="right")
    for minute, *counts in map(structs.astuple, minutes[-_ROWS:]):
        table.add_row(f"{datetime.fromtimestamp(minute, UTC):%H:%M}", *map(count, counts))
    return [lines, "", table]


def _sparkline(numbers: Sequence[int]) -> str:
    """Return a block for each number; only 0 has the lowest block."""
    maximum = max(numbers) or 1
    return "".join(_BLOCKS[ceil(number / maximum * (len(_BLOCKS) - 1))] for number in numbers)


_FORMATS: Mapping[str, Callable[[Any], str]] = {
    "oldest": duration,
    "expires_in": duration,
    "paused_for": duration,
    "send_rate": rate,
    "receive_rate": rate,
    "delete_rate": rate,
}
