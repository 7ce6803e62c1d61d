"""The command line.

A command with `--json` prints one object on standard output, in which a list has a name:
`{"queues": […]}`; keys are in snake_case, times in ISO 8601 of UTC, spans are numbers of seconds,
and states and kinds are written as the API writes them. Errors are one line on standard error,
which begins with `skipmq: `, and with `--json` is `{"error": {"code": …, "message": …}}`.
"""

import errno
import sys
from contextlib import suppress
from typing import NoReturn

import click

from skipmq import extras
from skipmq.cli.groups import cli
from skipmq.telemetry.terminal import visible

__all__ = ["cli", "main"]

# Codes of errors other than those of actions.
_FAILED, _USAGE, _OUTPUT, _STOPPED = "Failed", "Usage", "Output", "Stopped"
# Why standard output takes no more; the sentence is the system's.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO}


def main() -> None:
    """Run the command line; errors that the user can correct are one line without a traceback."""
    try:
        _run()
    except (click.Abort, KeyboardInterrupt):
        _fail("stopped", code=130, kind=_STOPPED)
    except UnicodeEncodeError as error:
        _fail_output(
            f"standard output is {error.encoding}, which cannot show all characters: set"
            " PYTHONIOENCODING=utf-8, or use --json"
        )
    except OSError as error:
        # As in a pipe to `head`.
        if error.errno == errno.EPIPE:
            _fail_output()
        if error.errno not in _FULL or error.filename is not None:
            raise
        _fail_output(f"standard output cannot be written: {error.strerror}")


def _run() -> None:
    try:
        cli(standalone_mode=False, prog_name="skipmq")
    except click.exceptions.Exit as exit_:
        sys.exit(exit_.exit_code)
    except click.ClickException as error:
        kind = _USAGE if isinstance(error, click.UsageError) else _FAILED
        context = error.ctx if isinstance(error, click.UsageError) else None
        if context is not None and not _is_json():
            usage = f"{context.get_usage()}\nTry '{context.command_path} --help' for help.\n"
            click.echo(visible(usage), err=True)
        _fail(*error.format_message().splitlines(), code=error.exit_code, kind=kind)
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
        _fail(*explanation.problems, code=explanation.exit_code, kind=explanation.code)


def _is_json() -> bool:
    """Return whether the errors of this command are for a program."""
    words = sys.argv[1:]
    # What `serve` prints in JSON is that it is ready.
    return "--json" in words and "serve" not in words[:1]


def _fail(*problems: str, code: int, kind: str = _FAILED) -> NoReturn:
    """Print what is wrong, and exit."""
    if _is_json():
        # Imported late: commands that succeed may need none.
        import json  # noqa: PLC0415

        error = {"code": kind, "message": "\n".join(problems)}
        click.echo(json.dumps({"error": error}), err=True)
    else:
        for problem in problems:
            click.echo(visible(f"skipmq: {problem}"), err=True)
    sys.exit(code)


def _fail_output(problem: str = "") -> NoReturn:
    """Fail because of standard output, which the interpreter would flush again at its end."""
    with suppress(OSError):
        sys.stdout.close()
    if not problem:
        sys.exit(1)
    _fail(problem, code=1, kind=_OUTPUT)
