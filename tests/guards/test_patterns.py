"""No regular expression of ours takes longer than in proportion to the text that it reads."""

import ast
import importlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from support.ambiguity import is_ambiguous

APP = Path(__file__).resolve().parent.parent.parent / "app" / "skipmq"
SOURCES = {path: path.read_text() for path in sorted(APP.rglob("*.py"))}
SEARCHES = {"search", "findall", "finditer", "sub", "split"}
# What reads only what servers and programs of ours, and operators, have written.
OWN_TEXTS = {"analytics", "cli", "config", "database"}
# Made of others, of which each is found where it comes first and not looked for again (atomic).
COMPOSED = {"auth/conditions.py: _regex"}


class Found(NamedTuple):
    """A regular expression in the sources, and the methods that it is used with."""

    where: str
    pattern: re.Pattern[str] | None
    methods: frozenset[str]


def _is_re(node: ast.AST, name: str | None = None) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "re"
        and node.func.attr in ({name} if name else {"match", "fullmatch", *SEARCHES})
    )


def _methods(path: Path, name: str) -> frozenset[str]:
    used = re.compile(rf"\b{name}\.(match|fullmatch|{'|'.join(SEARCHES)})\b")
    others = [text for text in SOURCES.values() if f"{path.stem}.{name}" in text]
    return frozenset(m for text in [SOURCES[path], *others] for m in used.findall(text))


def found() -> Iterator[Found]:
    for path, text in SOURCES.items():
        file = str(path.relative_to(APP))
        if path.relative_to(APP).parts[0] in OWN_TEXTS or "import re\n" not in text:
            continue
        module = importlib.import_module(f"skipmq.{file.removesuffix('.py').replace('/', '.')}")
        tree = ast.parse(text)
        inner = [f for f in ast.walk(tree) if isinstance(f, ast.FunctionDef)]
        for node in tree.body:
            for name in (n.id for n in ast.walk(node) if isinstance(n, ast.Name)):
                value = getattr(module, name, None)
                if isinstance(value, re.Pattern) and isinstance(node, ast.Assign):
                    yield Found(f"{file}: {name}", value, _methods(path, name))
        for function in inner:
            for node in ast.walk(function):
                if _is_re(node, "compile"):
                    yield Found(f"{file}: {function.name}", None, frozenset())
                elif _is_re(node):
                    assert isinstance(node, ast.Call)
                    assert isinstance(node.func, ast.Attribute)
                    pattern = re.compile(ast.literal_eval(node.args[0]))
                    method = frozenset({node.func.attr})
                    yield Found(f"{file}: {function.name}", pattern, method)


@cache
def everywhere() -> list[Found]:
    return sorted(set(found()), key=lambda each: each.where)


def test_every_expression_is_found() -> None:
    written = sum(
        len(re.findall(r"\bre\.(?:compile|match|fullmatch|search|sub|split|findall)\(", text))
        for path, text in SOURCES.items()
        if path.relative_to(APP).parts[0] not in OWN_TEXTS
    )

    assert len(everywhere()) == written, (
        "name a compiled expression in its module: NAME = re.compile(…)"
    )
    composed = {each.where for each in everywhere() if each.pattern is None}
    assert composed == COMPOSED, "compile a literal text in the module; COMPOSED has the exceptions"


def test_expressions_read_every_text_in_linear_time() -> None:
    compiled = [(each, each.pattern) for each in everywhere() if each.pattern]

    assert [each.where for each, _ in compiled if not each.methods] == [], "used nowhere: delete it"
    ambiguous = [
        f"{each.where}: {pattern.pattern}"
        for each, pattern in compiled
        for method in each.methods
        if is_ambiguous(pattern, searches=method in SEARCHES, whole=method == "fullmatch")
    ]
    assert ambiguous == [], "two of its parts match the same characters"


@pytest.mark.parametrize(
    ("pattern", "searches", "whole", "wanted"),
    [
        ("a*b", False, True, False),
        ("a*a*b", False, True, True),
        ("(a+)+b", False, True, True),
        ("(a[bc]|[ab]b)*d", False, True, True),
        ("(ab|a)*c", False, True, False),
        ("[a-z]+[0-9]+[a-z]+", False, True, False),
        ("[a-z]+[a-f]?[a-z]+", False, True, True),
        ("x[^y]+z", False, True, False),
        # A match is tried from every x on.
        ("x[^y]+z", True, False, True),
        ("[ \t]+", True, False, False),
        (r"\s*$", True, False, True),
        (r'"(?:[^"\\]|\\.)*"', True, False, True),
        (r'"(?:[^"\\]|\\.)*["\\]?', True, False, False),
        (r"Credential=([^/,&\s]+)/x", True, False, True),
        (r"(?i)A+a+", False, True, True),
    ],
)
def test_analysis_knows_what_takes_long(
    pattern: str, searches: bool, whole: bool, wanted: bool
) -> None:
    assert is_ambiguous(re.compile(pattern), searches=searches, whole=whole) == wanted
