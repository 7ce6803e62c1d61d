from skipmq.protocol import limits
from support.postgres import Connection
from support.sql import number


def test_forbidden_characters_are_those_of_the_nodes(owner: Connection) -> None:
    # Of those that PostgreSQL can hold: neither NUL nor surrogates.
    every = [chr(n) for n in range(1, 0x110000) if not 0xD800 <= n < 0xE000]
    found = number(
        owner,
        "select array_agg(c) filter (where skipmq.has_forbidden_character('a' || c || 'b'))"
        " from unnest(%s::text[]) c",
        every,
    )

    assert found == [each for each in every if limits.FORBIDDEN_CHARACTER.search(each)]
    assert len(found) == 30
