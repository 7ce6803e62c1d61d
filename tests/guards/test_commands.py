"""Commands that are imported when they run: listed without being imported, and as they are."""

import ast
import pkgutil
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import skipmq.cli
from skipmq.cli import cli
from skipmq.cli.groups import Deferred
from support.commands import imported, imported_by, loaded

# The packages that take long to import, and ours that import them.
EXPENSIVE = {
    *("alembic", "asyncio", "cryptography", "flask", "msgspec", "prometheus_client"),
    *("psycopg", "rich", "sqlalchemy", "structlog", "skipmq.server.answer"),
    *("skipmq.server.processes", "skipmq.broker", "skipmq.telemetry.logs"),
    *(
        "skipmq.actions",
        "skipmq.config",
        "skipmq.console",
        "skipmq.database.connection",
        "skipmq.database.embedded",
    ),
}
# What takes long of the standard library.
SLOW = {
    *("asyncio", "concurrent.futures", "email", "http.client", "importlib.metadata", "json"),
    *("logging", "multiprocessing", "socket", "ssl", "subprocess", "tomllib", "urllib.request"),
}

LATER = "import it within the function that needs it"
LISTED = "app/skipmq/cli/groups.py lists the command with this name, hidden and short help"
DEFERRED = [
    command
    for group in (cli, *cli.commands.values())
    if isinstance(group, click.Group)
    for command in group.commands.values()
    if isinstance(command, Deferred)
]


@pytest.mark.parametrize(
    "words", [["--version"], ["--help"], ["queue", "--help"], ["analytics", "--help"]]
)
def test_what_runs_no_command_imports_none(words: list[str]) -> None:
    found = imported(*words)

    assert "skipmq.cli.groups" in found
    assert found & EXPENSIVE == set(), LATER


def test_names_of_commands_are_completed_without_importing_them() -> None:
    typed = {"_SKIPMQ_COMPLETE": "bash_complete", "COMP_WORDS": "skipmq queue l", "COMP_CWORD": "2"}

    found = imported(variables=typed)

    assert "click.shell_completion" in found
    assert found & EXPENSIVE == set(), LATER


def test_serve_starts_the_database_before_it_imports_the_node() -> None:
    started = "skipmq.database.embedded.server"
    program = "from skipmq.cli.groups import cli; cli.commands['serve'].load()"

    found = imported_by("-c", program)

    assert started in found
    light = {"msgspec", "skipmq.config", "skipmq.database.embedded"}
    light |= {"skipmq.server.processes", "skipmq.telemetry.logs"}
    assert found & EXPENSIVE == light, LATER
    assert {"skipmq.server.processes.listening"} == {each for each in found if "processes." in each}


@pytest.mark.parametrize("command", DEFERRED, ids=lambda each: str(each.name))
def test_command_is_listed_as_it_is(command: Deferred) -> None:
    real = command.load()

    assert real.name == command.name, LISTED
    assert real.hidden == command.hidden, LISTED
    # In terminals of any width.
    for width in range(10, 200):
        assert real.get_short_help_str(width) == command.get_short_help_str(width), LISTED


def test_every_command_is_listed() -> None:
    known = {id(cli), *map(id, DEFERRED), *(id(command) for _, command in loaded(cli))}

    made = {
        f"{module.name}: {name}": id(value)
        for module in pkgutil.walk_packages(skipmq.cli.__path__, "skipmq.cli.")
        for name, value in vars(import_module(module.name)).items()
        if isinstance(value, click.Command)
    }

    unlisted = {name for name, command in made.items() if command not in known}
    assert unlisted == set(), "a line in app/skipmq/cli/groups.py lists the command"


def test_version_is_printed_in_an_instant() -> None:
    found = imported("--version") - imported_by("-c", "")

    packages = {name.partition(".")[0] for name in found}
    assert packages - sys.stdlib_module_names == {"click", "skipmq"}, LATER
    assert found & SLOW == set(), LATER


# What makes text that controls no terminal, or that a program reads.
SHOWN = {"visible", "json.dumps", "queue_files.write", "rights.script"}


@pytest.mark.parametrize(
    "path", [*Path(skipmq.cli.__path__[0]).rglob("*.py")], ids=lambda path: path.stem
)
def test_commands_print_nothing_that_controls_a_terminal(path: Path) -> None:
    calls = [
        node
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call)
    ]
    texts = [
        call.args[0]
        for call in calls
        if ast.unparse(call.func) in ("click.echo", "click.confirm", "print") and call.args
    ]

    assert [
        f"{path.name}:{text.lineno}"
        for text in texts
        if not (isinstance(text, ast.Call) and ast.unparse(text.func) in SHOWN)
    ] == [], "click.echo(visible(TEXT)), by skipmq.telemetry.terminal, or skipmq.cli.output"
    consoles = [call.lineno for call in calls if ast.unparse(call.func) == "Console"]
    assert consoles == [], "print tables by skipmq.cli.output"


def test_an_option_is_the_same_in_every_analytics_command() -> None:
    analytics = cli.commands["analytics"]
    assert isinstance(analytics, click.Group)
    found: dict[str, set[tuple[object, ...]]] = {}
    for _, command in loaded(analytics):
        for option in command.params:
            if isinstance(option, click.Option) and option.name != "output":
                told = (*option.opts, option.type.name, option.multiple, option.help)
                found.setdefault(option.opts[0], set()).add(told)

    differing = {name for name, kinds in found.items() if len(kinds) > 1}
    # Of the lake itself by default, or of the database.
    assert differing == {"--lake"}
    assert len(found["--lake"]) == 2
    assert all(told[-1] for kinds in found.values() for told in kinds)
