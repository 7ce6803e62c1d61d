"""The `import` command."""

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from rich.progress import Progress

from skipmq.cli.declared import Outcome, declare
from skipmq.cli.environment import configuration
from skipmq.cli.local import open_node
from skipmq.cli.output import err, json_option, note, print_json
from skipmq.config import ConfigError, queue_files
from skipmq.config.declarations import Difference, Found
from skipmq.config.imports import sqs
from skipmq.config.settings import Settings
from skipmq.telemetry.terminal import visible

# Fewer are imported before a bar could be read.
_MANY = 20


def _without_user(_: click.Context, parameter: click.Parameter, url: str | None) -> str | None:
    if url and "@" in urlsplit(url).netloc:
        raise click.BadParameter("write the URL without a user and a password", param=parameter)
    return url


@click.command("import")
@click.argument("file", required=False, type=click.Path(path_type=Path))
@click.option("--from-sqs", is_flag=True, help="Import the queues of an SQS endpoint.")
@click.option(
    "--endpoint-url",
    metavar="URL",
    callback=_without_user,
    help="Endpoint of SQS (default: AWS_ENDPOINT_URL_SQS, or else AWS).",
)
@click.option("--region", help="Region of the endpoint's queues (default: AWS_REGION).")
@click.option("--prefix", default="", help="Import queues whose names begin with it.")
@click.option("--overwrite", is_flag=True, help="Set what differs in queues that exist.")
@click.option("--dry-run", is_flag=True, help="Show what would be done.")
@click.option("--print", "as_toml", is_flag=True, help="Write TOML of the queues; create none.")
@json_option
def import_command(
    *,
    file: Path | None,
    from_sqs: bool,
    endpoint_url: str | None,
    region: str | None,
    prefix: str,
    overwrite: bool,
    dry_run: bool,
    as_toml: bool,
    as_json: bool,
) -> None:
    """Create the queues that FILE declares, or those of an SQS endpoint; move no messages.

    FILE is TOML, or an elasticmq.conf. The queues are of the account and the region of the
    settings. A queue that exists is left as it is, and what differs is shown.

    \b
    Examples:
      skipmq import elasticmq.conf
      skipmq import --from-sqs --region eu-central-1 --prefix shop-
      skipmq import --from-sqs --endpoint-url http://localhost:4566 --region us-east-1 --print

    The exit code is 1 if a queue could not be created, or differs.
    """  # noqa: D301 - click reads the character \b.
    if (file is None) != from_sqs:
        raise click.UsageError("name a file, or write --from-sqs")
    if file and (endpoint_url or region or prefix):
        raise click.UsageError("--endpoint-url, --region and --prefix go with --from-sqs")
    if as_toml and (overwrite or dry_run or as_json):
        raise click.UsageError("--print creates nothing: write it without other options")
    settings = configuration().settings
    found = _from_sqs(settings, endpoint_url, region, prefix) if from_sqs else None
    if found is None:
        assert file
        found = _from_file(file, settings)
    if not as_json:
        for difference in found.differences:
            note(f"no exact counterpart: {difference}")
    if as_toml:
        click.echo(queue_files.write(found.queues), nl=False)
        return
    outcomes = _declared(found, settings, dry_run=dry_run, overwrite=overwrite, quiet=as_json)
    if as_json:
        result = {
            "account": settings.account,
            "region": settings.region,
            "queues": [_result(each) for each in outcomes],
            "differences": [{"at": d.where, "remedy": d.remedy} for d in found.differences],
        }
        print_json(result)
    else:
        counts = Counter(map(_state, outcomes))
        summary = ", ".join(f"{count:,} {state}" for state, count in sorted(counts.items()))
        would = " (dry run)" if dry_run else ""
        place = f"account {settings.account}, region {settings.region}"
        click.echo(visible(f"{summary or 'no queues found'} in {place}{would}"))
    if any(each.error or each.mismatches for each in outcomes):
        sys.exit(1)


def _from_file(file: Path, settings: Settings) -> Found:
    """Return what a file declares; its region and account, if others, are differences."""
    problems: list[str] = []
    found = queue_files.read(file, problems)
    if problems:
        raise ConfigError(problems)
    others = tuple(
        Difference(
            f"{file}: {name} {found.settings[name]}",
            f"queues are created in the {name} of the settings, {getattr(settings, name)}. For"
            f" ARNs as before set SKIPMQ_{name.upper()}={found.settings[name]} here and for nodes",
        )
        for name in ("region", "account")
        if found.settings.get(name, getattr(settings, name)) != getattr(settings, name)
    )
    return Found(found.queues, found.settings, found.differences + others)


def _from_sqs(settings: Settings, url: str | None, region: str | None, prefix: str) -> Found:
    client = sqs.client(url, region)
    with _bar("reading queues") as advance:
        return sqs.read(client, settings.account, settings.region, prefix, advance)


def _declared(
    found: Found, settings: Settings, *, dry_run: bool, overwrite: bool, quiet: bool
) -> list[Outcome]:
    outcomes = []
    with open_node(settings, create=not dry_run) as node, _bar("importing queues") as advance:
        for each in declare(node, found.queues, dry_run=dry_run, overwrite=overwrite):
            outcomes.append(each)
            if not quiet:
                click.echo(visible(_line(each)))
            advance(len(outcomes), len(found.queues))
    return outcomes


@contextmanager
def _bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function that shows the progress of many queues on a terminal."""
    console = err
    # Where it is not shown it would still end in an empty line.
    with Progress(console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(title, total=None, visible=False)

        def advance(done: int, total: int) -> None:
            progress.update(bar, completed=done, total=total, visible=total >= _MANY)

        yield advance


def _state(outcome: Outcome) -> str:
    if outcome.error:
        return "failed"
    if outcome.is_new:
        return "created"
    if outcome.mismatches:
        return "different"
    return "changed" if outcome.changed else "unchanged"


def _line(outcome: Outcome) -> str:
    state, name = _state(outcome), outcome.queue.name
    details = {
        "failed": outcome.error,
        "changed": f"now as declared: {', '.join(outcome.changed)}",
        "different": "; ".join(
            f"{attribute} is {present or 'not set'}, not {declared}"
            for attribute, declared, present in outcome.mismatches
        )
        + " (--overwrite sets it)",
    }
    return f"{state} {name}" + (f": {details[state]}" if state in details else "")


def _result(outcome: Outcome) -> dict[str, Any]:
    return {
        "queue": outcome.queue.name,
        "state": _state(outcome),
        "changed": list(outcome.changed),
        "differences": [each._asdict() for each in outcome.mismatches],
        "error": outcome.error,
    }
