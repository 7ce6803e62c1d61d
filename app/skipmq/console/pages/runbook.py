"""The page of the runbook, to whose sections troubles and alerts lead."""

import posixpath
from collections.abc import Callable
from functools import cache
from typing import Any

import flask
from flask.typing import ResponseReturnValue
from markdown_it.token import Token
from markupsafe import Markup, escape

from skipmq.broker import runbook

# The folder of its page in the documentation.
_FOLDER = "operate"
_LINKS = ("#", "http://", "https://")
_TABLE = '<div class="scrolled" tabindex="0" role="region" aria-label="Table"><table>'


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/runbook", "runbook", _runbook)


def _runbook() -> ResponseReturnValue:
    return flask.render_template("runbook.html", contents=runbook.sections(), page=_page())


@cache
def _page() -> Markup:
    """Return the page in HTML, which has the elements of Markdown alone."""
    parser = runbook.parser()
    for name, html in (("table_open", _TABLE), ("table_close", "</table></div>\n")):
        parser.add_render_rule(name, _literally(html))
    parser.add_render_rule("fence", _block)
    tokens = parser.parse(runbook.text())
    for token, title in runbook.headings(tokens):
        token.attrSet("id", runbook.slug(title))
    for token in tokens:
        _name_pages(token.children or [])
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # noqa: S704 - as above.


def _literally(html: str) -> Callable[..., str]:
    return lambda *_: html


def _block(_: Any, tokens: list[Token], index: int, *__: Any) -> str:
    return f'<pre tabindex="0"><code>{escape(tokens[index].content)}</code></pre>\n'


def _name_pages(tokens: list[Token]) -> None:
    """Have names of pages of the documentation in place of links to them."""
    page = ""
    for token in tokens:
        if token.type == "link_open":
            target = str(token.attrs["href"])
            page = "" if target.startswith(_LINKS) else target.partition("#")[0]
            if page:
                token.type = "text"
        elif token.type == "link_close" and page:
            token.type = "text"
            token.content = f" (documentation: {posixpath.normpath(f'{_FOLDER}/{page}')})"
