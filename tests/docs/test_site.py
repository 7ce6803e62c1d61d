"""The site builds, and has the Markdown twin of each page and the list of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import pages


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [
        "-m",
        "sphinx",
        "-qWnaE",
        "--keep-going",
        "-d",
        str(folder / "cache"),
        str(pages.FOLDER),
    ]
    subprocess.run([sys.executable, *words, str(folder / "html")], check=True, timeout=300)
    return folder / "html"


def test_each_page_has_its_twin(site: Path) -> None:
    names = {str(file.relative_to(pages.FOLDER)) for file in pages.files()}

    assert {str(file.relative_to(site)) for file in site.rglob("*.md")} == names
    for name in names:
        assert (site / name).with_suffix(".html").exists()
    assert "`SKIPMQ_DATABASE_URL`" in (site / "reference" / "settings.md").read_text()


def test_llms_txt_lists_each_page_by_its_title(site: Path) -> None:
    text = (site / "llms.txt").read_text(encoding="utf-8")
    links = dict(re.findall(r"^- \[(.+?)\]\((.+?\.md)\)$", text, re.MULTILINE))

    assert text.startswith("# SkipMQ\n")
    assert {str(f.relative_to(pages.FOLDER)) for f in pages.files()} - {*links.values()} == {
        "index.md"
    }
    assert links["Install"] == "start/install.md"
