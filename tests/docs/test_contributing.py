"""The recipes of CONTRIBUTING.md, followed to the letter in a copy of the repository."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.http import ROOT
from support.tree import copy_tracked

PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
# A block, and before it where it goes: a new file, or a place in one that is there, which is given
# by the beginning of a line, of several the last.
BLOCK = re.compile(
    r"^ *<!-- (?:new: (?P<new>\S+)|in: (?P<file>\S+),"
    r" (?P<how>at the end|(?:before|after): .+?)) -->\n"
    r"^(?P<indent> *)```\w+\n(?P<text>.*?)^ *```$",
    re.MULTILINE | re.DOTALL,
)
BLOCKS = [*BLOCK.finditer(PAGE)]


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a copy of the repository in which all recipes were followed."""
    tree = tmp_path_factory.mktemp("contribution") / "skipmq"
    copy_tracked(tree)
    (tree / ".cache").symlink_to(ROOT / ".cache")
    (tree / ".venv").symlink_to(ROOT / ".venv")
    for block in BLOCKS:
        follow(block, tree)
    run(tree, sys.executable, "app/docs/generate.py")  # make reference
    return tree


def follow(block: re.Match[str], tree: Path) -> None:
    """Write a block where its comment says."""
    text = re.sub(rf"^{block['indent']}", "", block["text"], flags=re.MULTILINE)
    if block["new"]:
        (tree / block["new"]).write_text(text, encoding="utf-8")
        return
    file = tree / block["file"]
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    how, _, place = block["how"].partition(": ")
    found = [n for n, line in enumerate(lines) if line.strip().startswith(place)]
    assert found, f"CONTRIBUTING.md: no line of {block['file']} begins with {place}; name another"
    at = len(lines) if how == "at the end" else found[-1] + (how == "after")
    # Two lines part a class or a function from others; the formatter removes what is too much.
    space = "\n\n" if file.suffix == ".py" and not text.startswith(" ") else ""
    lines.insert(at, space + text + space)
    file.write_text("".join(lines), encoding="utf-8")


def run(tree: Path, *words: str) -> None:
    """Run a command in the copy, by its own sources, without an error."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}  # noqa: TID251 - without that of these tests.
    done = subprocess.run(
        words,
        cwd=tree,
        env=environment | {"PYTHONPATH": str(tree / "app")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_recipes_name_where_each_of_their_blocks_goes() -> None:
    assert len(BLOCKS) == len(re.findall(r"^ *<!-- (?:new|in): ", PAGE, re.MULTILINE)) > 12


@pytest.mark.slow
def test_code_of_the_recipes_passes_lint(copy: Path) -> None:
    python = [name for b in BLOCKS if (name := b["new"] or b["file"]).endswith(".py")]

    # As make format and make lint do.
    for words in (["format"], ["check", "--fix"], ["format", "--check"], ["check"]):
        run(copy, sys.executable, "-m", "ruff", *words, "--no-cache", *python)


@pytest.mark.slow
def test_guards_and_tests_of_what_was_added_pass(copy: Path) -> None:
    guards = [f"tests/guards/test_{name}.py" for name in ("actions", "architecture", "sql_map")]
    added = ["tests/sql/test_touch_message.py", "tests/http/test_touch_message.py"]

    run(
        copy,
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"),
        *(*guards, *added, "tests/docs/test_reference.py"),
    )


@pytest.mark.slow
@pytest.mark.slow
def test_commands_that_the_recipe_ends_with_pass(copy: Path) -> None:
    commands = re.findall(
        r"^ *```sh\n( *\.venv/bin/pytest .*?)^ *```$", PAGE, re.MULTILINE | re.DOTALL
    )
    (last,) = (text for text in commands if "TouchMessage" in text)

    run(copy, "sh", "-ec", last)
    run(copy, sys.executable, "-m", "mypy")
