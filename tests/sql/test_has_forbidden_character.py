from skipmq.protocol import limits
from support.postgres import Connection
from support.sql import number

FOUND = (
    "select array_agg(t) filter (where skipmq.has_forbidden_character('a' || t || 'b'))"
    " from unnest(%s::text[]) t"
)


def test_forbidden_characters_are_those_of_the_nodes(owner: Connection) -> None:
    # Of those that PostgreSQL can hold: neither NUL nor surrogates.
    every = "".join(chr(n) for n in range(1, 0x110000) if not 0xD800 <= n < 0xE000)
    parts = number(owner, FOUND, [every[n : n + 1000] for n in range(0, len(every), 1000)])

    found = number(owner, FOUND, list("".join(parts)))

    assert found == limits.FORBIDDEN_CHARACTER.findall(every)
    assert len(found) == 30
