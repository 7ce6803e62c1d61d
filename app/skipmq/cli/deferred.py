"""Commands that are imported only when they run, which keeps start-up fast."""

import sys
from importlib import import_module

import click


class Deferred(click.Command):
    """The name, short help and import path (`module:variable`) of a command."""

    def __init__(self, name: str, path: str, summary: str) -> None:
        super().__init__(name, help=summary)
        self._path = path

    def load(self) -> click.Command:
        """Import the command; log to standard error until it has loaded the settings."""
        module, _, variable = self._path.partition(":")
        command = getattr(import_module(f"skipmq.cli.{module}"), variable)
        assert isinstance(command, click.Command)
        # `serve` imports structlog later, and then configures it.
        if "structlog" in sys.modules:
            from skipmq.telemetry import logs  # noqa: PLC0415

            logs.to_standard_error()
        return command


class Group(click.Group):
    """A group that lists deferred commands without importing them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command as click.Group does, and import it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest
