"""Commands that are imported when they run: the others cost a command nothing."""

import sys
from importlib import import_module

import click


class Deferred(click.Command):
    """The name of a command, the first sentence of its help, and its place: `module:variable`."""

    def __init__(self, name: str, place: str, about: str) -> None:
        super().__init__(name, help=about)
        self._place = place

    def load(self) -> click.Command:
        """Import the command; what it logs before it knows the settings goes to standard error."""
        module, _, variable = self._place.partition(":")
        command = getattr(import_module(f"skipmq.cli.{module}"), variable)
        assert isinstance(command, click.Command)
        # `serve` imports what logs when it knows the settings.
        if "structlog" in sys.modules:
            from skipmq.telemetry import logs  # noqa: PLC0415

            logs.to_standard_error()
        return command


class Group(click.Group):
    """A group of commands some of which are deferred: it lists them without importing them."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is meant, imported, as click.Group returns it."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, command.load() if isinstance(command, Deferred) else command, rest
