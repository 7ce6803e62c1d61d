"""Tables of the reference, made of the code that they describe, as Markdown.

A page has a table of TABLES between `<!-- table: NAME -->` and `<!-- end of table -->`. `make
reference` writes them after a change of the code, and a test compares.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import MISSING, fields
from inspect import Parameter, cleandoc, getdoc, isfunction, signature
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin, get_type_hints

import click
from msgspec import Meta

import skipmq.client
from skipmq.broker.statistics import QueueStatistics
from skipmq.cli.groups import Deferred, cli
from skipmq.config.settings import SECRETS, Settings
from skipmq.protocol.queue_attributes import ATTRIBUTES
from skipmq.server import exposition
from skipmq.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS

FOLDER = Path(__file__).resolve().parent / "reference"
PLACE = re.compile(r"<!-- table: ([a-z]+) -->\n[^\0]*?<!-- end of table -->")


def filled(page: str) -> str:
    """Return a page with its tables as the code is; raise KeyError for one not made here."""
    return PLACE.sub(lambda place: _placed(place[1]), page)


def _placed(name: str) -> str:
    return f"<!-- table: {name} -->\n\n{TABLES[name]().strip()}\n\n<!-- end of table -->"


def settings() -> str:
    """Return the table of settings, in the order of their class."""
    hints = get_type_hints(Settings, include_extras=True)
    rows = []
    for each in fields(Settings):
        default = "" if each.default is MISSING or each.default == () else each.default
        about = str(each.metadata["about"])
        if each.name in SECRETS:
            about += f"; `SKIPMQ_{each.name.upper()}_FILE` names a file with it"
        variable = "`[queues.NAME]`" if each.name == "queues" else f"`SKIPMQ_{each.name.upper()}`"
        rows.append((variable, _code(default), _values(hints[each.name]), _plain(about)))
    return _table(("variable", "default", "values", "meaning"), rows)


def _values(hint: Any) -> str:
    """Return what a setting may be; nothing for any text."""
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint) if choice)
    if get_origin(hint) is not Annotated:
        return ""
    type_, *metas = get_args(hint)
    bounds = next((meta for meta in metas if isinstance(meta, Meta)), Meta())
    if bounds.pattern:
        return f"`{bounds.pattern}`"
    least = f"{bounds.ge}" if bounds.ge is not None else f"more than {bounds.gt}"
    kind = "" if type_ is int else " (fractions too)"
    return f"{least} to {bounds.le}{kind}" if bounds.le is not None else f"from {least}{kind}"


def attributes() -> str:
    """Return the table of a queue's attributes."""
    rows = []
    for each in ATTRIBUTES.values():
        allowed = each.allowed
        values = ", ".join(f"`{choice}`" for choice in allowed.choices)
        if each.type is int:
            values = f"{allowed.minimum:,} to {allowed.maximum:,}"
        elif allowed.is_limit and not values:
            values = each.range
        elif each.type is bool:
            values = "`true`, `false`"
        queues = "FIFO queues only" if allowed.fifo else "beyond SQS" if allowed.ours else ""
        if allowed.is_limit:
            queues = "beyond SQS, standard queues only" if allowed.standard else "beyond SQS"
        rows.append((f"`{each.name}`", _code(each.default), values, queues))
    return _table(("attribute", "default", "values", ""), rows)


def metrics() -> str:
    """Return the table of metrics, with the labels of those that have some."""
    labels = {each.name: each.labels for each in _definitions()}
    numbers = dict.fromkeys(QueueStatistics.__struct_fields__, 0)
    text, _ = exposition.text("", [], [], QueueStatistics(**numbers))  # type: ignore[arg-type]
    about = dict(re.findall(r"^# HELP (\S+) (.+)$", text.decode(), re.MULTILINE))
    rows = []
    for name, kind in re.findall(r"^# TYPE (skipmq_\S+) (\S+)$", text.decode(), re.MULTILINE):
        of_queue = ("account", "region", "queue") if name.startswith("skipmq_queue_") else ()
        named = labels.get(name.removesuffix("_total"), of_queue)
        rows.append((f"`{name}`", kind, ", ".join(named), _plain(about[name])))
    return _table(("metric", "type", "labels", "meaning"), rows)


def _definitions() -> Iterator[Any]:
    for table in (COUNTERS, GAUGES, HISTOGRAMS):
        yield from table.values()


def commands() -> str:
    """Return a section for each command: what it does, how it is called, and its options."""
    context = click.Context(cli, info_name="skipmq")
    return "\n".join([*_options(cli, context), *_sections(cli, context)])


def _sections(group: click.Group, context: click.Context) -> Iterator[str]:
    for name, found in sorted(group.commands.items()):
        command = found.load() if isinstance(found, Deferred) else found
        inner = click.Context(command, parent=context, info_name=name)
        yield f"\n## `{inner.command_path}`\n"
        yield _prose(command.help or "")
        if isinstance(command, click.Group):
            yield from _options(command, inner)
            yield from _sections(command, inner)
        else:
            usage = " ".join(command.collect_usage_pieces(inner))
            yield f"\n```text\n{inner.command_path} {usage}\n```\n"
            yield from _options(command, inner)


def python() -> str:
    """Return a section for each name of the Python client: what it takes, and what it says."""
    parts = []
    for name in skipmq.client.__all__:
        found = getattr(skipmq.client, name)
        parts += [f"## `{name}`", f"`{name}{_taken(found)}`", _plain(getdoc(found) or "")]
        for method, value in vars(found).items():
            function = value.__func__ if isinstance(value, staticmethod) else value
            if isfunction(function) and not method.startswith("_"):
                about = _plain(getdoc(function) or "")
                parts += [f"### `{name}.{method}`", f"`{method}{_taken(function)}`", about]
    return "\n\n".join(parts)


def _taken(called: Callable[..., Any]) -> str:
    """Return the parameters of a function or class, with what they are by default."""
    if called is skipmq.client.Context:
        return ""  # No program makes one.
    if isinstance(called, type) and "__init__" not in vars(called):
        return "(text)"  # An exception.
    found = signature(called)
    kept = [each for name, each in found.parameters.items() if name != "self"]
    bare = [each.replace(annotation=Parameter.empty) for each in kept]
    return str(found.replace(parameters=bare, return_annotation=Parameter.empty))


def _prose(text: str) -> str:
    """Return a command's help as Markdown: what click does not wrap is code."""
    parts = []
    for part in cleandoc(text).split("\n\n"):
        verbatim = part.startswith("\b")
        lines = part.removeprefix("\b\n").splitlines()
        parts.append("\n".join(["```text", *lines, "```"] if verbatim else map(_plain, lines)))
    return "\n\n".join(parts)


def _options(command: click.Command, context: click.Context) -> list[str]:
    records = [each.get_help_record(context) for each in command.params]
    rows = [(f"`{names}`", _plain(about)) for names, about in filter(None, records)]
    return ["", _table(("option", "meaning"), rows)] if rows else []


def _plain(text: str) -> str:
    """Return a text in which Markdown sees code alone."""
    parts = re.split("(`[^`]*`)", text)
    return "".join(p if p.startswith("`") else re.sub(r"([*_<\[])", r"\\\1", p) for p in parts)


def _code(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return f"`{text}`" if text else ""


def _table(heads: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """Return a table in Markdown, in whose cells a bar is escaped."""
    lines = [[*heads], ["---" for _ in heads], *([*row] for row in rows)]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines
    )


TABLES: dict[str, Callable[[], str]] = {
    "attributes": attributes,
    "commands": commands,
    "metrics": metrics,
    "python": python,
    "settings": settings,
}


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.md")):
        page = file.read_text(encoding="utf-8")
        if filled(page) != page:
            file.write_text(filled(page), encoding="utf-8")
            print(f"written: {file.name}")  # noqa: T201 - of a command.
