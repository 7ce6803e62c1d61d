"""The command that opens psql on the broker's database."""

import os
import shutil
import signal
import subprocess
import sys

import click

from skipmq import embedded
from skipmq.cli.environment import configuration, open_server
from skipmq.database import session


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open psql on the broker's database, the embedded one too, as the owner of the schema.

    ARGUMENTS are psql's own: -c 'select 1', -f FILE, -U ROLE for another role.
    """
    program = shutil.which("psql") or embedded.client_program("psql")
    if program is None:
        raise click.ClickException(
            "there is no psql on this machine: install PostgreSQL's client programs (Debian:"
            " apt-get install postgresql-client)"
        )
    with open_server(configuration().settings) as url:
        # As variables: -U and other options of psql win over them, and no password is in the list
        # of processes.
        variables, others = session.variables(url)
        words = [program, *arguments, *(["-d", session.conninfo(others)] if others else [])]
        # Ctrl-C in psql ends a statement, not psql.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        done = subprocess.run(
            words,
            env={**os.environ, **variables},  # noqa: TID251 - psql's, not settings.
            check=False,
        )
    sys.exit(done.returncode)
