"""How Sphinx builds the documentation: `make docs`, or sphinx-build app/docs dist/docs."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.highlighting import lexer_classes

from skipmq import __version__

FOLDER = Path(__file__).resolve().parent

LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)[^)]*\)")
# The sections, by the name of their folder, and the order of their pages; others follow these.
SECTIONS = {
    "Start": "what install first-message console",
    "Guides": "test test-other-languages outbox consumer failures fifo recipes "
    "declare-queues keys-and-policies django other-frameworks",
    "Come from": "sqs elasticmq localstack pgmq celery stores",
    "Operate": "one-machine own-postgresql containers kubernetes patroni managed-postgresql tls "
    "upgrade backup second-site security metrics sizing runbook",
    "Analyse": "history bodies reports dbt spark send reading measured",
    "Reference": "settings commands names sqs http sql python errors metrics",
    "Understand": "life-of-a-message acknowledged failover group-commit decisions benchmarks",
}

project = "SkipMQ"
version = release = __version__
author = "the authors of SkipMQ"
copyright = f"%Y, {author}"  # noqa: A001 - Sphinx's name.

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
nitpicky = True
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_title = f"SkipMQ {version}"
html_copy_source = html_show_sourcelink = html_show_sphinx = html_use_index = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Pygments has no lexer for HOCON.
lexer_classes["hocon"] = lexer_classes["none"]


def setup(app: Sphinx) -> None:
    """Have the pages of each section in the navigation."""
    app.connect("source-read", add_navigation)
    app.connect("source-read", name_files)
    app.connect("build-finished", write_markdown)


def add_navigation(_: Sphinx, page: str, source: list[str]) -> None:
    """Add the tables of contents to the first page, which Markdown readers need not see."""
    if page == "index":
        for section in SECTIONS:
            lines = [":::{toctree}", f":caption: {section}", ":hidden:", "", *pages_of(section)]
            source[0] += "\n".join(["", *lines, ":::", ""])


def pages_of(section: str) -> Iterator[str]:
    """Yield the pages of a section that are written."""
    folder = section.lower().replace(" ", "-")
    order = SECTIONS[section].split()
    names = [file.stem for file in sorted((FOLDER / folder).glob("*.md"))]
    for name in [*(n for n in order if n in names), *(n for n in names if n not in order)]:
        yield f"{folder}/{name}"


def name_files(_: Sphinx, page: str, source: list[str]) -> None:
    """Name files of the repository, which links of Markdown lead to, but which are no pages."""
    source[0] = with_files_named(page, source[0])


def with_files_named(page: str, text: str) -> str:
    """Return the text of a page with names in place of links to what is no page."""

    def named(link: re.Match[str]) -> str:
        text, path = link.groups()
        file = (FOLDER / page).parent.joinpath(path).resolve()
        if file.is_relative_to(FOLDER) or not file.exists():
            return link[0]
        return f"{text} (`{file.relative_to(FOLDER.parent.parent)}`)"

    return LINK.sub(named, text)


def write_markdown(app: Sphinx, error: Exception | None) -> None:
    """Write the Markdown twin of each page next to it, and llms.txt, the list of them."""
    if error or app.builder.format != "html":
        return
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    lines = [re.split(r"\n(?=:::|<)", index)[0].rstrip()]
    for section in SECTIONS:
        lines += ["", f"## {section}", ""]
        for page in pages_of(section):
            lines.append(f"- [{app.env.titles[page].astext()}]({page}.md)")
    for page in app.env.found_docs:
        text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
        twin = app.outdir / f"{page}.md"
        twin.write_text(with_files_named(page, text), encoding="utf-8")
    (app.outdir / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
