"""The commands that check and mend a lake."""

import json
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from rich.markup import escape
from rich.table import Table

from skipmq.cli.analytics import JSON, lake_of, spark_started
from skipmq.cli.analytics_errors import installed, one_line_errors
from skipmq.cli.environment import configuration
from skipmq.cli.output import out

if TYPE_CHECKING:
    from skipmq.analytics.verify import Wrong

_DAMAGED = 1
_WHERE = click.option("--lake", help="Folder, or any path of Hadoop's (default: SKIPMQ_ARCHIVE).")


@click.command("verify")
@_WHERE
@click.option("--repair", is_flag=True, help="Export again what is wrong and the database has.")
@JSON
@one_line_errors
def verify_command(*, lake: str | None, repair: bool, as_json: bool) -> None:
    """Check a lake against its files and the database.

    Looks at the size of each file and at how many rows it says it has; with SKIPMQ_DATABASE_URL or
    SKIPMQ_ANALYTICS_URL compares the rows of each queue and day with what the database has of them
    yet. Ends with code 1 when something is wrong that was not repaired.
    """
    settings = configuration().settings
    path = lake_of(settings, lake)
    if repair and not (settings.database_url or settings.analytics_url):
        raise click.UsageError("--repair wants the database: set SKIPMQ_DATABASE_URL")
    installed(settings.spark_master)
    from skipmq.analytics import delta, jdbc, verify  # noqa: PLC0415 - PySpark is an extra.

    with ExitStack() as stack:
        source = None
        if url := settings.analytics_url or settings.database_url:
            source = stack.enter_context(jdbc.opened(url))
        table = delta.open_(delta.url_of(path))
        with out.status("looking at the files"):
            checked = verify.check(table, source)
        mended = [wrong for wrong in checked.wrong if repair and wrong.can_be_repaired]
        if mended and source is not None:
            spark = stack.enter_context(spark_started(settings))
            with out.status("exporting again"):
                verify.repair(spark, path, source, mended)
    if as_json:
        facts = {"lake": path, "files": checked.files, "rows": checked.rows}
        wrongs = [_as_json(wrong, mended) for wrong in checked.wrong]
        click.echo(json.dumps({**facts, "wrong": wrongs}, indent=2))
    else:
        if checked.wrong:
            out.print(_table(checked.wrong, mended))
        left = len(checked.wrong) - len(mended)
        verdict = f"{left} queues' days are wrong" if left else "all is as it was written"
        out.print(f"{checked.files:,} files with {checked.rows:,} rows: {verdict}")
    if len(mended) < len(checked.wrong):
        sys.exit(_DAMAGED)


def _as_json(wrong: "Wrong", mended: Sequence["Wrong"]) -> dict[str, Any]:
    return {
        "day": str(wrong.day), "queue": wrong.queue, "rows": wrong.rows,
        "rows_in_database": wrong.there, "problems": wrong.problems, "repaired": wrong in mended,
    }  # fmt: skip


def _table(found: Sequence["Wrong"], mended: Sequence["Wrong"]) -> Table:
    table = Table("day", "queue", "what", "", box=None, pad_edge=False)
    for wrong in found:
        if wrong in mended:
            remedy = "[green]exported again[/]"
        elif wrong.can_be_repaired:
            remedy = "--repair exports it again"
        else:
            remedy = "[red]put back a copy[/]: the database does not have it any more"
        table.add_row(
            str(wrong.day), escape(wrong.queue), escape("\n".join(wrong.problems)), remedy
        )
    return table
