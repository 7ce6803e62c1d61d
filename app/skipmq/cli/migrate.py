"""The `migrate` command."""

import json

import click

from skipmq.cli.environment import configuration, open_server, running_database
from skipmq.cli.output import err, out
from skipmq.database import rights, schema
from skipmq.database.rights import Missing
from skipmq.database.schema import State
from skipmq.terminal import visible


@click.command()
@click.option("--dry-run", is_flag=True, help="Show the pending migrations and change nothing.")
@click.option(
    "--print-sql",
    is_flag=True,
    help="Print the SQL that an administrator has to run, and change nothing.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def migrate(*, dry_run: bool, print_sql: bool, as_json: bool) -> None:
    """Migrate the database's schema to this release. Run it as the owner of the schema.

    Every run applies the roles' rights again. Rights that the owner cannot grant are listed with
    the SQL for an administrator of the server:

    \b
      skipmq migrate --print-sql | psql -U postgres -d skipmq
      skipmq migrate
    """  # noqa: D301 - click reads the character \b.
    if print_sql and (dry_run or as_json):
        raise click.UsageError("--print-sql cannot be combined with other options")
    settings = configuration().settings
    if print_sql:
        url, _ = running_database(settings)
        click.echo(rights.script(rights.missing(url)), nl=False)
        return
    if dry_run:
        url, _ = running_database(settings)
        before, migrations = schema.plan(url)
        missing = rights.missing(url)
    else:
        with open_server(settings) as url, err.status("migrating"):
            before, migrations = schema.plan(url)
            schema.migrate(url)
            missing = rights.missing(url)
    if as_json:
        click.echo(json.dumps(_report(before, migrations, missing), indent=2))
        return
    for name in migrations:
        out.print(f"{'would migrate' if dry_run else 'migrated'} to {name}")
    if not migrations:
        out.print(f"the schema is at {before.found}: nothing to do")
    _print_missing(missing, dry_run=dry_run)


def _report(before: State, migrations: list[str], missing: list[Missing]) -> dict[str, object]:
    return {
        "from": before.found,
        "to": migrations[-1] if migrations else before.found,
        "migrations": migrations,
        "missing": [
            {
                "what": right.what,
                "consequence": right.loss,
                "sql": right.statement,
                "by": "owner" if right.by_owner else "administrator",
            }
            for right in missing
        ],
    }


def _print_missing(missing: list[Missing], *, dry_run: bool) -> None:
    for right in missing:
        if right.by_owner:
            out.print(f"would fix: {right.what}" if dry_run else f"still missing: {right.what}")
    if any(not right.by_owner for right in missing):
        click.echo(
            visible(
                "skipmq: roles or rights are missing that only an administrator can create:\n"
                + rights.script(missing)
            ),
            err=True,
            nl=False,
        )
    elif not missing:
        out.print("all roles and rights are present")
