"""The map in sql/README.md has each SQL function once, in the group that its rights put it in."""

import re
from collections import Counter

from skipmq.database import files

SQL = files.folder("sql")
FUNCTIONS = {file.stem: file.read_text() for file in files.functions()}
# The groups, and the folders of their functions.
FOLDERS = {
    "Applications": "application",
    "Nodes": "node",
    "Routers": "node",
    "The janitor": "janitor",
    "Commands": "operator",
    "Inner": "internal",
}


def on_the_map() -> dict[str, list[str]]:
    """Return the names of the functions of each group, as they stand there."""
    text = (SQL / "README.md").read_text()
    section = text.partition("## The map of functions\n")[2].partition("\n## ")[0]
    items = re.findall(r"^- \*\*(.+?)\*\*(.*?)(?=^- |\Z)", section, re.MULTILINE | re.DOTALL)
    return {group: re.findall(r"`(\w+)`", names) for group, names in items}


def named(statement: str) -> list[set[str]]:
    """Return the functions that each statement of such a form in roles.sql names."""
    roles = (SQL / "roles.sql").read_text()
    return [set(re.findall(r"skipmq\.(\w+)\(", each)) for each in re.findall(statement, roles)]


def callers(function: str) -> str:
    """Return what the contract of a function says of its callers."""
    return FUNCTIONS[function].partition("-- Called by:")[2].partition("-- Locks")[0]


def test_each_function_is_on_the_map_once() -> None:
    found = on_the_map()
    counts = Counter(name for names in found.values() for name in names)

    assert tuple(found) == tuple(FOLDERS)
    assert counts == dict.fromkeys(FUNCTIONS, 1)


def test_each_function_is_in_the_folder_of_its_group() -> None:
    expected = {name: FOLDERS[group] for group, names in on_the_map().items() for name in names}

    assert {file.stem: file.parent.name for file in files.functions()} == expected


def test_groups_are_those_of_the_rights_and_of_the_contracts() -> None:
    groups = {group: set(names) for group, names in on_the_map().items()}
    inner, owners = named(r"revoke execute on function([^;]*)from skipmq_node;")
    (applications,) = named(r"grant execute on function([^;]*)to skipmq_application;")

    assert groups["Applications"] == applications
    assert groups["Inner"] >= inner
    assert groups["Commands"] >= owners
    assert groups["The janitor"] == {
        name for name in FUNCTIONS.keys() - inner if "the janitor" in callers(name)
    }
    actions = {name for name in FUNCTIONS if re.search(r"\bactions?\b", callers(name))}
    assert groups["Nodes"] >= actions


def test_each_function_that_is_called_from_outside_says_how_a_router_routes_it() -> None:
    outer = {n for group, names in on_the_map().items() if group != "Inner" for n in names}

    assert {n for n, text in FUNCTIONS.items() if "\n-- Routed: " in text} == outer
