"""The `queue send` command."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import TextIOWrapper
from itertools import repeat
from typing import IO, Any

import click
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from skipmq.cli.output import err, json_option, note, plain, print_json
from skipmq.cli.source import Source, open_source, queue_argument
from skipmq.protocol import limits
from skipmq.telemetry.terminal import visible

_NOT_TEXT = "standard input is not UTF-8: bodies are text; send binary values as attributes"
_FORM = "NAME=TYPE:VALUE, such as tries=Number:3"


def _attributes(
    _: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> dict[str, dict[str, str]]:
    """Parse NAME=TYPE:VALUE options into message attributes; binary values are in base64."""
    parsed = {}
    for text in given:
        name, equals, typed = text.partition("=")
        kind, colon, value = typed.partition(":")
        if not (name and equals and kind and colon):
            raise click.BadParameter(f"{text!r} is not of the form {_FORM}", param=parameter)
        is_binary = kind.partition(".")[0] == "Binary"
        parsed[name] = {"DataType": kind, "BinaryValue" if is_binary else "StringValue": value}
    return parsed


attributes_option = click.option(
    "-a",
    "--attribute",
    "attributes",
    multiple=True,
    metavar="NAME=TYPE:VALUE",
    callback=_attributes,
    help="Message attribute: String, Number or Binary (base64); may be repeated.",
)


@click.command("send")
@queue_argument
@click.argument("body", default="-", metavar="[BODY|-]")
@attributes_option
@click.option("--delay", type=click.IntRange(0, limits.MAXIMUM_DELAY), help="Delay in seconds.")
@click.option("--group", metavar="ID", help="Group ID of a FIFO queue, or tenant of a fair queue.")
@click.option("--dedup-id", metavar="ID", help="Deduplication ID; with several bodies, ID-1, ID-2…")
@click.option("--lines", is_flag=True, help="Send each non-empty line of standard input.")
@click.option("--count", type=click.IntRange(1), help="Number of times to send the body.")
@json_option
def queue_send(
    *, name: str, body: str, lines: bool, count: int | None, as_json: bool, **options: Any
) -> None:
    """Send a message to the queue NAME; without BODY, or with -, read it from standard input.

    \b
    Examples:
      skipmq queue send orders '{"order": 1}' --delay 30
      skipmq queue send orders -a tries=Number:3 -a kind=String:test hello
      skipmq queue send orders.fifo --group customer-7 --dedup-id order-1 <order.json
      grep ERROR app.log | skipmq queue send errors --lines
    """  # noqa: D301 - click reads the character \b.
    if lines and (body != "-" or count):
        raise click.UsageError("--lines cannot be combined with BODY or --count")
    standard_input = TextIOWrapper(sys.stdin.buffer, encoding="utf-8", newline="\n")
    if not lines and body == "-":
        body = _text(standard_input)
    with open_source() as node:
        if not (lines or count):
            result = node.act("SendMessage", QueueUrl=name, **_message(body, **options))
            if as_json:
                print_json(plain(result))
            else:
                click.echo(visible(f"sent {result['MessageId']}"))
            return
        bodies = _lines(standard_input) if lines else repeat(body, count or 1)
        sent, failed = _send_all(node, name, bodies, count, options)
    if as_json:
        print_json({"sent": sent, "failed": failed})
    else:
        for entry in failed:
            note(f"message {entry['number']}: {entry['code']}: {entry['error']}")
        click.echo(
            visible(f"sent {sent:,} messages" + (f", {len(failed):,} failed" if failed else ""))
        )
    if failed:
        sys.exit(1)


def _message(
    body: str,
    *,
    attributes: dict[str, Any],
    delay: int | None,
    group: str | None,
    dedup_id: str | None,
) -> dict[str, Any]:
    given = {
        "MessageBody": body,
        "MessageAttributes": attributes or None,
        "DelaySeconds": delay,
        "MessageGroupId": group,
        "MessageDeduplicationId": dedup_id,
    }
    return {name: value for name, value in given.items() if value is not None}


def _text(stream: IO[str]) -> str:
    try:
        return stream.read()
    except UnicodeDecodeError:
        raise click.ClickException(_NOT_TEXT) from None


def _lines(stream: IO[str]) -> Iterator[str]:
    """Yield the non-empty lines without line terminators."""
    try:
        yield from (text for line in stream if (text := line.rstrip("\r\n")))
    except UnicodeDecodeError:
        raise click.ClickException(_NOT_TEXT) from None


def _send_all(
    node: Source,
    name: str,
    bodies: Iterable[str],
    total: int | None,
    options: Mapping[str, Any],
) -> tuple[int, list[dict[str, Any]]]:
    """Send bodies in batches; return the number of messages sent, and the failures."""
    sent, failed = 0, []
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=err, transient=True) as progress:
        bar = progress.add_task("", total=total)
        for batch in _batches(bodies, dict(options)):
            result = node.act("SendMessageBatch", QueueUrl=name, Entries=batch)
            sent += len(result.get("Successful", ()))
            failed += [
                {"number": int(entry["Id"]), "code": entry["Code"], "error": entry["Message"]}
                for entry in result.get("Failed", ())
            ]
            progress.update(bar, completed=sent, description=f"{sent:,} sent to {escape(name)}")
    return sent, failed


def _batches(bodies: Iterable[str], options: dict[str, Any]) -> Iterator[Sequence[dict[str, Any]]]:
    """Yield batches within the limits of a request; entry IDs number the bodies from 1 on."""
    dedup_id = options.pop("dedup_id")
    shared = sum(
        len(f"{name}{''.join(value.values())}".encode())
        for name, value in options["attributes"].items()
    )
    batch: list[dict[str, Any]] = []
    size = 0
    for number, body in enumerate(bodies, start=1):
        body_size = len(body.encode()) + shared
        if len(batch) == limits.BATCH_ENTRIES or (batch and size + body_size > limits.BATCH_BYTES):
            yield batch
            batch, size = [], 0
        numbered_id = None if dedup_id is None else f"{dedup_id}-{number}"
        batch.append({"Id": str(number), **_message(body, dedup_id=numbered_id, **options)})
        size += body_size
    if batch:
        yield batch
