"""The commands `queue search` and `queue consumers`, which only read."""

from collections.abc import Mapping
from typing import Any

import click
from rich.console import Group

from skipmq.cli.output import err, limit_option, plain, printing_json
from skipmq.cli.queue.messages import peeked
from skipmq.cli.queue.stats import duration
from skipmq.cli.source import act, open_source, queue_argument
from skipmq.cli.tables import Column, listed
from skipmq.protocol import limits


def _consumer(each: Mapping[str, Any]) -> str:
    """Return the name of a consumer: its key's user or key, or its role and program."""
    if each["Interface"] == "SQL":
        return f"{each.get('Role') or ''} {each.get('Application') or ''}".strip()
    return str(each.get("User") or each.get("AccessKeyId") or "unsigned")


_CONSUMERS = (
    Column("consumer", of=_consumer),
    Column("address", 3, of="ClientAddress"),
    Column("since", 4, is_number=True, of="SinceSeconds", form=duration),
    Column("last receive", 1, is_number=True, of="LastReceiveSeconds", form=duration),
    Column("waiting", 2, is_number=True, of="WaitingReceivers"),
    Column("received", 2, is_number=True, of="Received"),
    Column("deleted", 2, is_number=True, of="Deleted"),
)


@click.command("search")
@queue_argument
@click.option("--body", metavar="TEXT", help="Messages whose body contains the text.")
@click.option(
    "--path", metavar="PATH", help="Those whose body matches a JSON path, such as '$.order == 7'."
)
@click.option("--attribute", metavar="NAME", help="Those with this attribute.")
@click.option("--value", metavar="TEXT", help="The value of the --attribute.")
@click.option(
    "--receives", type=click.IntRange(1), metavar="N", help="Those received N times or more."
)
@click.option(
    "--failure", metavar="KIND", help="Those that failed so, as the console counts; '' for none."
)
@limit_option(50, limits.PEEKED, "Maximum number of messages to print.")
@printing_json
def queue_search(*, name: str, limit: int, **texts: Any) -> tuple[Any, Any]:
    """Search the queue NAME, in flight or not, and count the matching messages.

    \b
    Examples:
      skipmq queue search orders --path '$.order == 7'
      skipmq queue search failed --failure 'KeyError: #' --receives 3

    Nothing is received or changed. `move`, `copy` and `delete-matching` act on what matches.
    """  # noqa: D301 - click reads the character \b.
    parameters = {
        "BodyContains": texts["body"],
        "BodyPath": texts["path"],
        "AttributeName": texts["attribute"],
        "AttributeValue": texts["value"],
        "MinimumReceiveCount": texts["receives"],
        "FailureKind": texts["failure"],
    }
    messages: list[dict[str, Any]] = []
    found = searched = 0
    token = None
    with open_source() as node, err.status("searching") as status:
        while True:
            step = node.act(
                "SearchMessages", QueueUrl=name, **parameters, MaxResults=limit, NextToken=token
            )
            messages += step["Messages"][: limit - len(messages)]
            found, searched = found + step["Found"], searched + step["Searched"]
            token = step.get("NextToken")
            if token is None:
                break
            status.update(f"found {found:,}, searched {searched:,}")
    result = {"found": found, "searched": searched, "messages": plain(messages)}
    said = f"{found:,} of {searched:,} messages match"
    return result, Group(peeked(messages), said) if messages else said


@click.command("consumers")
@queue_argument
@printing_json
def queue_consumers(name: str) -> tuple[Any, Any]:
    """Show who received from the queue NAME in the last ten minutes, or waits for messages."""
    answer = act("ListConsumers", QueueUrl=name)
    found, none = answer["Consumers"], f"queue {name} had no consumer in the last ten minutes"
    return plain(answer), listed(_CONSUMERS, found) if found else none
