"""Commands that are imported only when they run, which keeps start-up fast."""

from importlib import import_module

import click

from skipmq import extras


class Deferred(click.Command):
    """The name, short help and import path (`module:variable`) of a command.

    `extra` is what it needs of SkipMQ, None for the client alone.
    """

    def __init__(self, name: str, path: str, summary: str, *, extra: str | None = "server") -> None:
        super().__init__(name, help=summary)
        self._path, self._extra = path, extra

    def check(self, words: str) -> None:
        """Raise MissingExtraError, which names the command by `words`, if its extra is missing."""
        if self._extra is not None:
            extras.require_server(f"`{words}`", self._extra)

    def load(self) -> click.Command:
        """Import the command."""
        module, _, variable = self._path.partition(":")
        command = getattr(import_module(f"skipmq.cli.{module}"), variable)
        assert isinstance(command, click.Command)
        return command


class Group(click.Group):
    """A group that lists deferred commands without importing them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click.Group does, and import it.

        Raises MissingExtraError.
        """
        name, command, rest = super().resolve_command(ctx, args)
        if not isinstance(command, Deferred):
            return name, command, rest
        try:
            command.check(f"{ctx.command_path} {name}")
        except extras.MissingExtraError:
            # The shell completes a line: the command has no options to offer.
            if ctx.resilient_parsing:
                return name, command, rest
            raise
        return name, command.load(), rest
