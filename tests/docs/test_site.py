"""The site builds, and has the Markdown twin of each page and the list of them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from support import pages
from support.http import ROOT

REPOSITORY = "https://git.example/skipmq"
# What a browser loads with a page.
LOADED = re.compile(
    r"<(?:script|img|iframe|source)\b[^>]*\ssrc=\"([^\"]+)\"|<link\b(?![^>]*canonical)[^>]*\shref=\"([^\"]+)\""
    r"|\burl\(['\"]?([^'\")]+)|@import ['\"]([^'\"]+)"
)


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [
        *("-m", "sphinx", "-qWnaE", "--keep-going"),
        *("-D", f"repository={REPOSITORY}", "-d", str(folder / "cache"), str(pages.FOLDER)),
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


def test_site_asks_no_other_server(site: Path) -> None:
    files = [file for suffix in ("html", "css") for file in site.rglob(f"*.{suffix}")]
    loaded = {
        address
        for file in files
        for found in LOADED.findall(file.read_text(encoding="utf-8"))
        for address in found
        if address
    }

    assert any(address.startswith("_static/icon.svg") for address in loaded)
    assert [each for each in loaded if re.match(r"(https?:)?//", each)] == []


def test_landing_page_has_tabs_with_code(site: Path) -> None:
    page = (site / "index.html").read_text(encoding="utf-8")
    tabs = re.findall(r'class="sd-tab-label"[^>]*>\s*(\w+)', page)
    parts = page.partition("sd-tab-set")[2].split("sd-tab-content")[1:]

    assert tabs == ["Send", "Consume", "Test"]
    assert all("highlight-python" in part for part in parts)
    assert "copybutton.js" in page


def test_files_of_the_repository_are_linked_where_it_is_shown(site: Path) -> None:
    place = f"{REPOSITORY}/blob/main/"
    page = (site / "operate" / "containers.html").read_text(encoding="utf-8")
    everywhere = [file.read_text(encoding="utf-8") for file in site.rglob("*.html")]
    linked = {name for text in everywhere for name in re.findall(rf'"{place}([^"#?]+)', text)}

    assert f"{place}app/docs/operate/containers.md" in page
    assert {name for name in linked if not (ROOT / name).exists()} == set()
    assert {name.split("/")[0] for name in linked} >= {"app", "tests"}
