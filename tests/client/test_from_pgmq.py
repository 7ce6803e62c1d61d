"""The script that moves messages from PGMQ, as its page has it, on PGMQ's own schema."""

import re
from pathlib import Path

import pgmq
import psycopg
import pytest

from support import pages
from support.postgres import Connection
from support.sql import Queue, number

PAGE = (pages.FOLDER / "come-from" / "pgmq.md").read_text(encoding="utf-8")
SCRIPT = "".join(re.findall(r"^```sql\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
LEFT = "select count(*) from pgmq.q_orders"


@pytest.fixture
def both(owner: Connection) -> Connection:
    """Give the owner's connection to a database with both schemas, and a queue in each."""
    schema = Path(pgmq.__file__).parent / "sql" / "pgmq.sql"
    owner.execute(schema.read_bytes())
    owner.execute("select pgmq.create('orders')")
    Queue(owner, "orders")
    return owner


def test_what_is_visible_moves_in_its_order(both: Connection) -> None:
    both.execute("""select pgmq.send('orders', '{"n": 0}')""")
    both.execute("select * from pgmq.read('orders', 600, 1)")
    both.execute("""select pgmq.send('orders', '{"n": 9}', 600)""")
    for n in range(1, 8):
        both.execute(
            "select pgmq.send('orders', jsonb_build_object('n', %s::int), %s::jsonb)",
            (n, '{"trace": "x"}' if n == 1 else None),
        )

    assert number(both, SCRIPT) == 7

    assert number(both, LEFT) == 2
    rows = both.execute(
        "select body::jsonb->'n', attributes::jsonb from skipmq.receive_message('orders', 10)"
    ).fetchall()
    assert [n for n, _ in rows] == [*range(1, 8)]
    assert rows[0][1] == {"trace": {"DataType": "String", "StringValue": "x"}}
    assert number(both, SCRIPT) == 0


def test_many_messages_move_in_parts_and_null_has_a_body(both: Connection) -> None:
    both.execute("select pgmq.send('orders', null::jsonb)")
    numbers = "array(select to_jsonb(n) from generate_series(1, 1000) n)"
    both.execute(f"select pgmq.send_batch('orders', {numbers})")

    assert [number(both, SCRIPT) for _ in range(3)] == [1_000, 1, 0]

    ((first,), *_) = both.execute("select body from skipmq.receive_message('orders', 1)").fetchall()
    assert first == "null"


def test_refused_message_moves_none(both: Connection) -> None:
    both.execute("""select pgmq.send('orders', '{"n": 1}')""")
    both.execute("""select pgmq.send('orders', '{"n": 2}', '{"trace": ""}'::jsonb)""")

    with pytest.raises(psycopg.Error):
        both.execute(SCRIPT.encode())

    assert number(both, LEFT) == 2
    assert number(both, "select count(*) from skipmq.message where queue_id > 0") == 0
