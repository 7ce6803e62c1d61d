"""The commands `queue groups`, `queue release`, `queue reschedule` and `queue cancel`."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from rich.console import Group

from skipmq.cli.output import Column, limit_option, listed, plain, printing_json, shown_milliseconds
from skipmq.cli.queue.stats import duration
from skipmq.cli.source import act, open_source, queue_argument
from skipmq.protocol import limits


def _holder(each: Mapping[str, Any]) -> str:
    """Return who has the first message of a group in flight, and where."""
    by = each.get("Role") or str(each.get("User") or "").rpartition(":user/")[2]
    by = (
        by
        or each.get("AccessKeyId")
        or ("unsigned" if each.get("InFlightSeconds") is not None else "")
    )
    return " ".join(part for part in (by, each.get("ClientAddress", "")) if part)


def _waiting(each: Mapping[str, Any]) -> str:
    return f"{each['MessagesBehind']:,}{'' if each['IsWholeCount'] else ' or more'}"


_GROUPS = (
    Column("group", of="MessageGroupId"),
    Column("state", of="State"),
    Column("first message", 3, of="MessageId"),
    Column("received", 4, is_number=True, of="ApproximateReceiveCount"),
    Column("in flight", 2, is_number=True, of=lambda each: each["MessagesInFlight"] or None),
    Column("for", 1, is_number=True, of="InFlightSeconds", form=duration),
    Column("until (UTC)", 2, of="VisibleTimestamp", form=shown_milliseconds),
    Column("by", 1, of=_holder),
    Column("waiting", is_number=True, of=_waiting),
)


@click.command("groups")
@queue_argument
@click.option("--group", metavar="GROUP", help="Only the group of this ID.")
@limit_option(50, 10_000, "Maximum number of groups.")
@printing_json
def queue_groups(name: str, group: str | None, limit: int) -> tuple[Any, Any]:
    """Show the groups of the FIFO queue NAME, those that stay in flight longest first.

    Each has its first message, by whom it is held, and how many messages wait behind it. `skipmq
    queue release NAME --group GROUP` frees one.
    """
    groups: list[dict[str, Any]] = []
    token = None
    with open_source() as node:
        while True:
            page = node.act(
                "ListMessageGroups",
                QueueUrl=name,
                MessageGroupId=group,
                MaxResults=min(limit - len(groups), limits.PEEKED),
                NextToken=token,
            )
            groups += page["Groups"]
            token = page.get("NextToken")
            if token is None or len(groups) >= limit:
                break
    result = {"groups": plain(groups), "more": token is not None}
    if not groups:
        return result, "no matching groups"
    shown = listed(_GROUPS, groups)
    return result, Group(shown, "there are more: --limit") if token is not None else shown


@click.command("release")
@queue_argument
@click.argument("messages", nargs=-1, metavar="[ID]...")
@click.option("--group", "groups", multiple=True, metavar="GROUP", help="Free this FIFO group.")
@printing_json
def queue_release(name: str, messages: Sequence[str], groups: Sequence[str]) -> tuple[Any, Any]:
    """Make messages in flight of the queue NAME visible now: those with the IDs, or of groups.

    \b
    Examples:
      skipmq queue release orders 0e4d1f3a-6c1b-4a7e-9d53-1f2a3b4c5d6e
      skipmq queue release mails.fifo --group customer-7

    A message of a FIFO queue frees its whole group. The receiver may still be processing it: its
    receipt handle is worth what it is after a visibility timeout.
    """  # noqa: D301 - click reads the character \b.
    if not messages and not groups:
        raise click.UsageError("specify message IDs, or --group")
    answer = act(
        "ReleaseMessages",
        QueueUrl=name,
        MessageReferences=list(messages) or None,
        MessageGroupIds=list(groups) or None,
    )
    others = [each for each in answer["Results"] if each["Outcome"] != "released"]
    lines = [f"made {answer['Released']:,} of {name} visible"]
    for each in others:
        what = each.get("MessageReference") or f"group {each['MessageGroupId']}"
        is_here = each["Outcome"] == "not-in-flight"
        lines.append(f"{what}: {'not in flight' if is_here else 'not found in flight'}")
    if others and not answer["Released"]:
        raise click.ClickException("; ".join(lines[1:]))
    return plain(answer), "\n".join(lines)


@click.command("reschedule")
@queue_argument
@click.argument("messages", nargs=-1, required=True, metavar="ID...")
@click.option(
    "--in",
    "seconds",
    type=click.IntRange(0, limits.MAXIMUM_DELAY),
    required=True,
    metavar="SECONDS",
    help="Seconds from now.",
)
@printing_json
def queue_reschedule(name: str, messages: Sequence[str], seconds: int) -> tuple[Any, Any]:
    """Deliver delayed messages of the queue NAME at another time, earlier or later.

    \b
    Examples:
      skipmq queue reschedule mails 0e4d1f3a-6c1b-4a7e-9d53-1f2a3b4c5d6e --in 0
      skipmq queue reschedule mails 0e4d1f3a-6c1b-4a7e-9d53-1f2a3b4c5d6e --in 604800
    """  # noqa: D301 - click reads the character \b.
    answer = act(
        "ReleaseMessages", QueueUrl=name, MessageReferences=list(messages), VisibleInSeconds=seconds
    )
    return _outcomes(answer, "rescheduled", name)


@click.command("cancel")
@queue_argument
@click.argument("messages", nargs=-1, required=True, metavar="ID...")
@printing_json
def queue_cancel(name: str, messages: Sequence[str]) -> tuple[Any, Any]:
    """Delete delayed messages of the queue NAME before they are delivered.

    \b
    Examples:
      skipmq queue cancel mails 0e4d1f3a-6c1b-4a7e-9d53-1f2a3b4c5d6e
    """  # noqa: D301 - click reads the character \b.
    answer = act("DeletePickedMessages", QueueUrl=name, MessageReferences=list(messages))
    return _outcomes(answer, "deleted", name)


def _outcomes(answer: Mapping[str, Any], done: str, name: str) -> tuple[Any, Any]:
    """Return an answer, and its outcomes as text; raise ClickException where none is `done`."""
    others = [each for each in answer["Results"] if each["Outcome"] != done]
    count = len(answer["Results"]) - len(others)
    lines = [f"{done} {count:,} of {name}"]
    for each in others:
        text = (
            "not found, or delivered already" if each["Outcome"] == "missing" else each["Outcome"]
        )
        lines.append(f"{each['MessageReference']}: {text}")
    if not count:
        raise click.ClickException("; ".join(lines[1:]))
    return plain(answer), "\n".join(lines)
