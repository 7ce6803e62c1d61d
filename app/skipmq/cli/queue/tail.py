"""The `queue tail` command."""

import json
from datetime import UTC, datetime
from time import sleep
from typing import Any

import click
from rich.text import Text

from skipmq.cli.completion import queue_argument
from skipmq.cli.output import out
from skipmq.cli.source import Arrival, open_source
from skipmq.terminal import visible

_POLL_INTERVAL = 0.5


@click.command("tail")
@queue_argument
@click.option("--json", "as_json", is_flag=True, help="Print a JSON object per line.")
def queue_tail(*, name: str, as_json: bool) -> None:
    """Print messages as they arrive in the queue NAME until Ctrl-C, without receiving them.

    It polls twice a second and misses messages that are received and deleted within that time. By
    --endpoint bodies are cut after 2,048 characters.
    """
    with open_source() as node:
        tail = node.follow(name)
        click.echo(visible(f"following {name}; Ctrl-C stops"), err=True)
        try:
            while True:
                for message in tail.new():
                    _print(message, as_json=as_json)
                sleep(_POLL_INTERVAL)
        except KeyboardInterrupt:
            return


def _print(message: Arrival, *, as_json: bool) -> None:
    sent = datetime.fromtimestamp(message.at / 1e6, UTC)
    if as_json:
        shown: dict[str, Any] = {
            "sent": sent.isoformat(timespec="milliseconds"),
            "message_id": message.message_id,
            "state": message.state,
            "group": message.group_id,
            "body": message.body,
        }
        if message.cut:
            shown["characters_cut"] = message.cut
        click.echo(json.dumps(shown))
        return
    line = Text(f"{sent:%H:%M:%S}  {message.message_id}  ", no_wrap=True)
    if message.group_id:
        line.append(f"{message.group_id}  ", "cyan")
    line.append(" ".join(message.body.split()) + ("…" if message.cut else ""))
    out.print(line, overflow="ellipsis", no_wrap=True)
