"""Every block of the documentation, run in the order of its page."""

from pathlib import Path

import pytest

from support import pages, reader
from support.pages import Page
from support.postgres import Databases

PAGES = [pages.read(file) for file in pages.files()]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.slow else [])
        for page in PAGES
        if page.runs
    ],
)
def test_blocks_of_the_page_run(page: Page, embedded_databases: Databases, tmp_path: Path) -> None:
    output = reader.run(page, embedded_databases, tmp_path)

    assert output.endswith(">>> the end\n"), output
