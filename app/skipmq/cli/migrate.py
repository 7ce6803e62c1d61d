"""The commands `migrate` and `psql`, which run as the owner of the schema."""

import os
import shutil
import signal
import subprocess
import sys

import click
from rich.markup import escape

from skipmq.cli.environment import configuration, open_server, running_database
from skipmq.cli.output import err, json_option, note, out, print_json
from skipmq.database import embedded, rights, schema, session
from skipmq.database.rights import Finding
from skipmq.database.schema import State
from skipmq.telemetry.logs import log
from skipmq.telemetry.terminal import visible


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the pending migrations and change nothing.")
@click.option(
    "--print-sql",
    is_flag=True,
    help="Print the SQL that an administrator has to run, and change nothing.",
)
@json_option
@log.silenced()
def migrate_command(*, dry_run: bool, print_sql: bool, as_json: bool) -> None:
    """Migrate the database's schema to this release. Run it as the owner of the schema.

    Every run applies the roles' rights again, and revokes others on SkipMQ's objects: a role that
    reads is a member of skipmq_reader. Rights that the owner cannot change are listed with the SQL
    for an administrator of the server:

    \b
      skipmq migrate --print-sql | psql -U postgres -d skipmq
      skipmq migrate
    """  # noqa: D301 - click reads the character \b.
    if print_sql and (dry_run or as_json):
        raise click.UsageError("--print-sql cannot be combined with other options")
    settings = configuration().settings
    if print_sql:
        url, _ = running_database(settings)
        click.echo(rights.script([*rights.missing(url), *rights.surplus(url)]), nl=False)
        return
    if dry_run:
        url, _ = running_database(settings)
        before, migrations = schema.plan(url)
        missing, surplus = rights.missing(url), rights.surplus(url)
        revoked = [right for right in surplus if right.by_owner]
    else:
        with open_server(settings) as url, err.status("migrating"):
            before, migrations = schema.plan(url)
            found = rights.surplus(url)
            schema.migrate(url)
            missing, surplus = rights.missing(url), rights.surplus(url)
            revoked = [right for right in found if right not in surplus]
    if before.is_untested:
        note(f"the server is newer than those that SkipMQ is tested with: {schema.NEWEST_TESTED}")
    if as_json:
        print_json(_report(before, migrations, missing, surplus))
        return
    for name in migrations:
        out.print(f"{'would migrate' if dry_run else 'migrated'} to {name}")
    if not migrations:
        out.print(f"the schema is at {before.found}: nothing to do")
    for right in revoked:
        verb = "would revoke" if dry_run else "revoked"
        out.print(escape(f"{verb}: {right.what} ({right.loss})"))
    _print_findings(missing, surplus, dry_run=dry_run)


def _report(
    before: State, migrations: list[str], missing: list[Finding], surplus: list[Finding]
) -> dict[str, object]:
    return {
        "from": before.found,
        "to": migrations[-1] if migrations else before.found,
        "migrations": migrations,
        "missing": [_described(right) for right in missing],
        "surplus": [_described(right) for right in surplus],
    }


def _described(right: Finding) -> dict[str, object]:
    return {
        "what": right.what,
        "consequence": right.loss,
        "sql": right.statement,
        "by": "owner" if right.by_owner else "administrator",
    }


def _print_findings(missing: list[Finding], surplus: list[Finding], *, dry_run: bool) -> None:
    for right in missing:
        if right.by_owner:
            out.print(f"would fix: {right.what}" if dry_run else f"still missing: {right.what}")
    if any(not right.by_owner for right in (*missing, *surplus)):
        click.echo(
            visible(
                "skipmq: roles or rights that only an administrator can correct:\n"
                + rights.script([*missing, *surplus])
            ),
            err=True,
            nl=False,
        )
    elif not missing and (not surplus or not dry_run):
        out.print("all roles and rights are present")


@click.command(context_settings={"ignore_unknown_options": True, "help_option_names": ["--help"]})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def psql_command(arguments: tuple[str, ...]) -> None:
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
