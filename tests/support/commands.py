"""The commands of the command line."""

from collections.abc import Iterator

import click

from skipmq.cli.deferred import Deferred


def loaded(group: click.Group, *words: str) -> Iterator[tuple[str, click.Command]]:
    """Import all commands of a group and below it; give each with its words."""
    for name, command in group.commands.items():
        found = command.load() if isinstance(command, Deferred) else command
        yield " ".join((*words, name)), found
        if isinstance(found, click.Group):
            yield from loaded(found, *words, name)
