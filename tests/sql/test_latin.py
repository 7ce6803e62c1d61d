import unicodedata

from support.postgres import Connection
from support.sql import number


def test_letters_and_digits_of_all_alphabets_become_a(owner: Connection) -> None:
    # Those that every Python has in its tables, and NUL and the surrogates nobody sends.
    known = "".join(
        character
        for character in map(chr, range(128, 0x110000))
        if unicodedata.ucd_3_2_0.category(character) not in ("Cn", "Cs")
    )

    latin = number(owner, "select skipmq.latin(%s)", known)

    letters = sum(each.isalpha() or each.isdecimal() for each in known)
    assert letters > 90_000
    assert latin == "".join("a" if c.isalpha() or c.isdecimal() else c for c in known)


def test_ascii_stays_as_it_is(owner: Connection) -> None:
    assert number(owner, "select skipmq.latin('a.B-ß 1')") == "a.B-a 1"
