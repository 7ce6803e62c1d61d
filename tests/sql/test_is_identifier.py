import pytest

from support.postgres import Connection
from support.sql import number


@pytest.mark.parametrize(
    ("text", "valid"),
    [
        *((text, True) for text in ["a", "!", "~", "a-b_c.d/e", "x" * 128]),
        *((text, False) for text in ["", " ", "a b", "a\n", "ß", "\x7f", "x" * 129]),
        (None, None),
    ],
)
def test_identifier_is_of_printable_ascii(
    owner: Connection, text: str | None, valid: bool | None
) -> None:
    assert number(owner, "select skipmq.is_identifier(%s)", text) is valid
