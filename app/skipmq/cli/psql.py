"""The `psql` command."""

import os
import shutil
import signal
import subprocess
import sys

import click

from skipmq.cli.environment import configuration, open_server
from skipmq.database import embedded, session


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql(arguments: tuple[str, ...]) -> None:
    """Open psql on the broker's database, also the embedded one, as the owner of the schema.

    ARGUMENTS are passed to psql: -c 'select 1', -f FILE, -U ROLE for another role.
    """
    program = shutil.which("psql") or embedded.client_program("psql")
    if program is None:
        raise click.ClickException(
            "psql is not installed: install PostgreSQL's client programs (Debian: apt-get install"
            " postgresql-client)"
        )
    with open_server(configuration().settings) as url:
        # Options of psql such as -U override environment variables, which also keep the password
        # out of the process list.
        variables, others = session.variables(url)
        command = [program, *arguments, *(["-d", session.conninfo(others)] if others else [])]
        # psql handles Ctrl-C: it cancels the statement.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        completed = subprocess.run(
            command,
            env={**os.environ, **variables},  # noqa: TID251 - the environment of psql.
            check=False,
        )
    sys.exit(completed.returncode)
