"""README.md: read in a minute, and each of its blocks run as it stands there."""

from pathlib import Path

from support import pages, reader
from support.http import ROOT
from support.postgres import Databases

README = pages.read(ROOT / "README.md")


def test_readme_begins_with_the_two_commands() -> None:
    lines = README.blocks[0].text.splitlines()

    assert [line.partition("#")[0].strip() for line in lines] == ["make run", "make test"]


def test_readme_is_read_in_a_minute() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").split()) <= 400


def test_own_database_is_named_before_it_is_migrated() -> None:
    (block,) = (block for block in README.blocks if "skipmq migrate" in block.text)

    first, second, *_ = block.text.splitlines()
    assert first.startswith("export SKIPMQ_DATABASE_URL=postgresql://owner:password@localhost/")
    assert second.startswith("skipmq migrate")


def test_blocks_of_the_readme_test_send_and_consume(
    embedded_databases: Databases, tmp_path: Path
) -> None:
    left = "skipmq psql -Atc 'table sold'\nskipmq queue peek orders --json\n"

    output = reader.run(README, embedded_databases, tmp_path, then=left)

    assert "1 passed" in output, output
    assert output.partition(">>> the end\n")[2].split("\n", 2) == [
        *("coffee", "tea", '{\n  "messages": []\n}\n'),
    ], output
