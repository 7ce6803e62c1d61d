"""How Sphinx builds the documentation: `make docs`, or sphinx-build app/docs dist/docs."""

import re
from collections.abc import Iterator
from pathlib import Path

from sphinx.application import Sphinx
from sphinx.config import Config
from sphinx.highlighting import lexer_classes

from skipmq import __version__

FOLDER = Path(__file__).resolve().parent

COMMENT = re.compile(r"<!--.*?-->\n")
# Sections of a page that the site shows as tabs; each begins with its name in bold type.
TABS = re.compile(r"<!-- tabs -->\n(.*?)<!-- end of tabs -->", re.DOTALL)
TAB = re.compile(r"^\*\*(\w+)\*\*: (.*?)(?=^\*\*\w+\*\*: |\Z)", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[([^\]]+)\]\((\.\./[^)#\s]+)([^)]*)\)")
BRANCH = "main"
# The sections, by the name of their folder, and the order of their pages; others follow these.
SECTIONS = {
    "Start": "what install first-message console",
    "Guides": "test test-other-languages outbox consumer failures fifo limits schedules recipes "
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

extensions = ["myst_parser", "sphinx_copybutton", "sphinx_design"]
source_suffix = {".md": "markdown"}
nitpicky = True
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_favicon = "../skipmq/console/static/icon.svg"
html_title = f"SkipMQ {version}"
html_copy_source = html_show_sourcelink = html_show_sphinx = html_use_index = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 4

# Pygments has no lexer for HOCON.
lexer_classes["hocon"] = lexer_classes["none"]


def setup(app: Sphinx) -> None:
    """Have the pages of each section in the navigation, and links to the repository's files.

    `make docs REPOSITORY=https://…` says where these are shown; without one they are named.
    """
    app.add_config_value("repository", "", "env")
    app.connect("config-inited", link_pages)
    app.connect("source-read", add_navigation)
    app.connect("source-read", add_tabs)
    app.connect("source-read", name_files)
    app.connect("build-finished", write_markdown)


def link_pages(_: Sphinx, config: Config) -> None:
    """Have each page link to its source where that is shown."""
    if config.repository:
        view = f"{config.repository}/blob/{BRANCH}/app/docs/{{filename}}"
        config.html_theme_options["source_view_link"] = view


def add_tabs(_: Sphinx, __: str, source: list[str]) -> None:
    """Show sections between `<!-- tabs -->` and `<!-- end of tabs -->` as tabs."""

    def tabs(sections: re.Match[str]) -> str:
        items = (
            f"::::{{tab-item}} {name}\n{text[0].upper()}{text[1:]}\n::::"
            for name, text in TAB.findall(sections[1])
        )
        return "\n".join([":::::{tab-set}", *items, ":::::"])

    source[0] = TABS.sub(tabs, source[0])


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


def name_files(app: Sphinx, page: str, source: list[str]) -> None:
    """Link to the repository's files that are no pages, or name them."""
    source[0] = with_files_named(page, source[0], app.config.repository)


def with_files_named(page: str, text: str, repository: str) -> str:
    """Return the text of a page with links to, or the names of, files that are no pages."""

    def named(link: re.Match[str]) -> str:
        text, path, heading = link.groups()
        file = (FOLDER / page).parent.joinpath(path).resolve()
        if file.is_relative_to(FOLDER) or not file.exists():
            return link[0]
        name = file.relative_to(FOLDER.parent.parent)
        if repository:
            return f"[{text}]({repository}/blob/{BRANCH}/{name}{heading})"
        return f"{text} (`{name}`)"

    return LINK.sub(named, text)


def write_markdown(app: Sphinx, error: Exception | None) -> None:
    """Write the Markdown twin of each page next to it, and llms.txt, the list of them."""
    if error or app.builder.format != "html":
        return
    index = (FOLDER / "index.md").read_text(encoding="utf-8")
    lines = [COMMENT.sub("", index).rstrip()]
    for section in SECTIONS:
        lines += ["", f"## {section}", ""]
        for page in pages_of(section):
            lines.append(f"- [{app.env.titles[page].astext()}]({page}.md)")
    for page in app.env.found_docs:
        text = (FOLDER / f"{page}.md").read_text(encoding="utf-8")
        twin = app.outdir / f"{page}.md"
        twin.write_text(with_files_named(page, text, app.config.repository), encoding="utf-8")
    (app.outdir / "llms.txt").write_text("\n".join([*lines, ""]), encoding="utf-8")
