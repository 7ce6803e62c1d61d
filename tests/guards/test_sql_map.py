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
    missing, surplus = FUNCTIONS.keys() - counts, counts - Counter(FUNCTIONS.keys())
    assert missing == set(), "add it to the map in sql/README.md, in the group of its folder"
    assert surplus == Counter(), "remove it from the map in sql/README.md, which has each once"


def test_each_function_is_in_the_folder_of_its_group() -> None:
    expected = {name: FOLDERS[group] for group, names in on_the_map().items() for name in names}

    misplaced = {
        file
        for file in files.functions()
        if file.parent.name != expected.get(file.stem, file.parent.name)
    }
    assert misplaced == set(), "move the file, or its name on the map in sql/README.md"


def test_groups_are_those_of_the_rights_and_of_the_contracts() -> None:
    groups = {group: set(names) for group, names in on_the_map().items()}
    inner, owners = named(r"revoke execute on function([^;]*)from skipmq_node;")
    (applications,) = named(r"grant execute on function([^;]*)to skipmq_application;")

    rights = "its group on the map in sql/README.md and its rights in sql/roles.sql differ"
    contract = 'its group on the map in sql/README.md and its line "Called by" differ'
    assert groups["Applications"] == applications, rights
    assert groups["Inner"] >= inner, rights
    assert groups["Commands"] >= owners, rights
    janitors = {name for name in FUNCTIONS.keys() - inner if "the janitor" in callers(name)}
    assert groups["The janitor"] == janitors, contract
    actions = {name for name in FUNCTIONS if re.search(r"\bactions?\b", callers(name))}
    assert groups["Nodes"] | groups["Applications"] >= actions, contract


def test_each_function_that_is_called_from_outside_says_how_a_router_routes_it() -> None:
    outer = {n for group, names in on_the_map().items() if group != "Inner" for n in names}
    inner = {*on_the_map()["Inner"]}

    routed = {name for name, text in FUNCTIONS.items() if "\n-- Routed: " in text}
    assert outer - routed == set(), 'end the contract with "-- Routed: …"; CONTRIBUTING.md has how'
    assert routed & inner == set(), "no router calls it: remove the line"
