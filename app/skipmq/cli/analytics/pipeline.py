"""The command `analytics pipeline`."""

import sys
from pathlib import Path

import click
from rich.markup import escape

from skipmq.cli.analytics.errors import check_spark, one_line_errors
from skipmq.cli.analytics.sources import readable_database, spark_started
from skipmq.cli.environment import configuration
from skipmq.cli.output import out

_VIOLATED = 1
_YAML, _GRPC = ("yaml", "Spark's pipelines"), ("grpc", "Spark's pipelines")


@click.command("pipeline")
@click.option(
    "--output",
    required=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Local folder.",
)
@click.option("--refresh", is_flag=True, help="Make all tables again.")
@one_line_errors
def pipeline_command(*, output: Path, refresh: bool) -> None:
    """Bring the tables bronze, silver and gold of settled messages up to date.

    Runs a declarative pipeline of Spark: bronze gets the messages settled since the last run, each
    once, silver a row for each, gold the hourly tables of the reports. It can be killed and
    repeated at any time. Compares the tables with the database's counters; the exit code is 1 if
    they differ. --refresh makes the tables again, of the history that the database still has.
    """
    settings = configuration().settings
    check_spark(settings.spark_master, _YAML, _GRPC)
    from skipmq.analytics.spark import pipeline_run  # noqa: PLC0415 - PySpark is an extra.

    with (
        readable_database(settings) as (url, _),
        spark_started(settings, pipeline_run.configuration(output)) as spark,
    ):
        try:
            with out.status("running") as status:
                pipeline_run.run(
                    spark, output, url, lambda line: status.update(escape(line)), refresh=refresh
                )
        except pipeline_run.ViolationError as error:
            out.print(f"[red]expectation violated[/]: {escape(str(error))}")
            out.print(
                "if a failover has undone rows that the tables have, make them again with"
                " --refresh, of the history that the database still has"
            )
            sys.exit(_VIOLATED)
    out.print(f"the tables in {output / 'tables'} are as the database has counted")
