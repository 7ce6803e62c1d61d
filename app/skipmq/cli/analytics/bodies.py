"""The command `analytics bodies`."""

from pathlib import Path

import click
from rich.markup import escape

from skipmq.cli import place
from skipmq.cli.analytics.engine import check_duckdb
from skipmq.cli.analytics.errors import one_line_errors
from skipmq.cli.analytics.options import (
    LAKE,
    SINCE,
    UNTIL,
    Moment,
    bounds,
    check_order,
    check_queues,
    output_option,
)
from skipmq.cli.analytics.sources import lake_path
from skipmq.cli.environment import configuration
from skipmq.cli.output import json_option, out, print_json
from skipmq.protocol import body_schemas


@click.command("bodies")
@click.argument("queue")
@output_option("Parquet file.", is_folder=False)
@LAKE
@click.option(
    "--schema",
    "file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="File with a JSON Schema to use instead of the queue's.",
)
@SINCE
@UNTIL
@json_option
@one_line_errors
def analytics_bodies(
    *,
    queue: str,
    output: Path,
    lake: str | None,
    file: Path | None,
    since: Moment | None,
    until: Moment | None,
    as_json: bool,
) -> None:
    """Write the settled messages of QUEUE as Parquet, with their bodies as columns.

    Reads a lake in a local folder. The columns are those of its schema: the queue's BodySchema as
    of the last export, or --schema. A body that does not fit is in the column `unfit`. Without
    --since and --until all messages of the lake are written.
    """
    check_order(since, until)
    settings = configuration().settings
    path = lake_path(settings, lake)
    check_duckdb(path)
    from skipmq.analytics import delta, queue_settings  # noqa: PLC0415 - PySpark is an extra.
    from skipmq.analytics.reports.engines import duckdb  # noqa: PLC0415

    table = delta.open_(delta.url_of(path))
    name = place.full_name(queue, settings)
    check_queues(None, table, [name.name])
    if file is None:
        schema = queue_settings.body_schema(queue_settings.from_lake(table.lake), name)
    else:
        schema = file.read_text(encoding="utf-8")
        try:
            body_schemas.read(schema)
        except body_schemas.SchemaError as error:
            raise click.ClickException(f"{file} is not a schema of bodies: {error}") from error
    begin, end = bounds(None, table, since, until)
    with duckdb.opened() as engine, out.status("reading"):
        history = engine.history_of(table, name, since=begin, until=end)
        rows, unfit = engine.write(engine.with_bodies(history, schema), output)
    if as_json:
        result = {"queue": queue, "file": str(output), "rows": rows, "unfit": unfit}
        print_json(result, indent=None)
    else:
        unfitting = f"; bodies that do not fit: {unfit:,}" if unfit else ""
        out.print(f"{rows:,} messages of {escape(queue)} in {escape(str(output))}{unfitting}")
