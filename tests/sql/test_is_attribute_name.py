import pytest

from support.postgres import Connection
from support.sql import number


@pytest.mark.parametrize(
    ("name", "valid"),
    [
        *((name, True) for name in ["a", "A.b_c-9", "awsome", "aws", "x.AWS.y", "attr.1øßä"]),
        *((name, True) for name in ["x" * 256, "日本", "٣", "Amazon-x"]),
        *((name, False) for name in ["", ".", "a.", ".a", "a..b", "a b", "a/b", "a\n", "\n"]),
        *((name, False) for name in ["x" * 257, "AWS.x", "aws.", "Amazon.x", "aMaZon.x", "a²"]),
    ],
)
def test_attribute_name_is_what_sqs_takes(owner: Connection, name: str, valid: bool) -> None:
    assert number(owner, "select skipmq.is_attribute_name(%s)", name) is valid


def test_syntax_of_texts_in_the_session_changes_nothing(owner: Connection) -> None:
    owner.execute("set standard_conforming_strings = off")

    for name, valid in (("a.b", True), ("a b", False), ("a\1b", False), ("awsome", True)):
        assert number(owner, "select skipmq.is_attribute_name(%s)", name) is valid
