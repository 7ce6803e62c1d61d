"""Questions before a command deletes messages."""

import click

from skipmq.cli.source import Source
from skipmq.protocol import names
from skipmq.telemetry.terminal import visible

_COUNTS = (
    *("ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"),
    "ApproximateNumberOfMessagesDelayed",
)

yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def described(node: Source, queue: str) -> str:
    """Return the name of a queue with its region and number of messages.

    Raises as `node.act` does.
    """
    shown = node.act("GetQueueAttributes", QueueUrl=queue, AttributeNames=["QueueArn", *_COUNTS])
    attributes = shown["Attributes"]
    number = sum(int(attributes[each]) for each in _COUNTS)
    named = names.parse(attributes["QueueArn"])
    messages = "1 message" if number == 1 else f"{number:,} messages"
    return f"{named.name} ({named.region}, {messages})"


def ask(question: str, otherwise: str = "nothing was deleted") -> None:
    """Ask a question; raise click.ClickException unless the answer is yes."""
    try:
        agreed = click.confirm(visible(question))
    except click.Abort:  # Also the end of standard input.
        click.echo(err=True)
        agreed = False
    if not agreed:
        raise click.ClickException(f"{otherwise}; --yes answers the question")
