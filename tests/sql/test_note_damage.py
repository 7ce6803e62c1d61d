import pytest

from support.postgres import Connection
from support.sql import number

NOTE = "select skipmq.note_damage(%s)"


def noted(node: Connection, owner: Connection, error: str) -> tuple[str, int, bool]:
    node.execute(NOTE, (error,))
    row = owner.execute("select relation, page, file is not null from skipmq.damage").fetchone()
    assert row is not None
    return row


@pytest.mark.parametrize("relation", ["skipmq.message", "skipmq.message_visible"])
@pytest.mark.parametrize(
    "text",
    [
        'invalid page in block 17 of relation "{}"',
        "invalid page in block 17 of relation {}",
        'could not read block 17 in file "{}": read only 0 of 8192 bytes',
        'could not read blocks 17..18 in file "{}": Input/output error',
    ],
)
def test_relation_and_page_are_found_by_the_file(
    owner: Connection, node: Connection, relation: str, text: str
) -> None:
    file = number(owner, "select pg_relation_filepath(%s::regclass)", relation)

    assert noted(node, owner, text.format(file)) == (relation, 17, True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            'index "message_pkey" contains corrupted page at block 5',
            ("skipmq.message_pkey", 5, True),
        ),
        ("something unheard of", ("", -1, False)),
        ('invalid page in block 3 of relation "base/1/999999999"', ("", 3, False)),
    ],
)
def test_relation_is_found_by_its_name_or_not_at_all(
    owner: Connection, node: Connection, text: str, expected: tuple[str, int, bool]
) -> None:
    assert noted(node, owner, text) == expected


def test_toast_table_is_found(owner: Connection, node: Connection) -> None:
    toast = number(
        owner,
        "select reltoastrelid::regclass::text from pg_class where oid = 'skipmq.message'::regclass",
    )
    error = f"missing chunk number 0 for toast value 5 in {toast.removeprefix('pg_toast.')}"

    assert noted(node, owner, error) == (toast, -1, True)


def test_second_error_of_a_page_adds_no_record(owner: Connection, node: Connection) -> None:
    for _ in range(2):
        node.execute(NOTE, ('index "message_pkey" contains corrupted page at block 5',))

    assert number(owner, "select count(*) from skipmq.damage where first_at < last_at") == 1
