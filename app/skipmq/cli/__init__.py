"""The command line."""

import sys
from io import StringIO
from typing import NoReturn

import click

from skipmq import extras
from skipmq.cli.groups import cli
from skipmq.telemetry.terminal import visible

__all__ = ["cli", "main"]


def main() -> None:
    """Run the command line; errors that the user can correct are one line without a traceback."""
    try:
        _run()
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped", code=130)


def _run() -> None:
    try:
        cli(standalone_mode=False, prog_name="skipmq")
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        text = StringIO()
        error.show(text)
        click.echo(visible(text.getvalue()), err=True, nl=False)
        sys.exit(error.exit_code)
    except click.Abort:
        raise
    except extras.MissingExtraError as error:
        _fail(str(error), code=1)
    except Exception as error:
        # The client's command explains its own errors.
        if not extras.has_server():
            raise
        # Imported late, because a successful command does not need it.
        from skipmq.cli import failures  # noqa: PLC0415

        if (explanation := failures.explain(error)) is None:
            raise
        problems, code = explanation
        _fail(*problems, code=code)


def _fail(*problems: str, code: int) -> NoReturn:
    for problem in problems:
        click.echo(visible(f"skipmq: {problem}"), err=True)
    sys.exit(code)
