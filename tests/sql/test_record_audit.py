import psycopg
import pytest

from support.access_keys import KEY, create, keys
from support.audit import ACCOUNT, record, write, written
from support.postgres import Connection
from support.sql import number


def test_records_have_what_was_given_in_its_order_at_the_time_it_was_noted(
    node: Connection,
) -> None:
    before = number(node, "select extract(epoch from skipmq.clock())::float8")

    count = write(
        node,
        record(request_id="one", age=0.75, parameters={"QueueName": "orders"}),
        record(request_id="two", door="console", parameters='{"Cut'),
    )

    assert count == 2
    two, one = written(node)
    assert (one["request_id"], one["door"]) == ("one", "api")
    assert one["parameters"] == {"QueueName": "orders"}
    assert (two["request_id"], two["door"], two["parameters"]) == ("two", "console", '{"Cut')
    assert two["recorded_at"] >= before
    assert two["recorded_at"] - one["recorded_at"] == pytest.approx(0.75, abs=0.001)


def test_texts_without_a_bound_are_cut(node: Connection) -> None:
    write(node, record(queue="é" * 5_000, user_arn="u" * 5_000, client="c" * 5_000))

    (found,) = written(node)
    assert [len(found[name]) for name in ("queue", "user_arn", "client")] == [256, 256, 80]


def test_claimed_key_that_there_is_gives_its_account(owner: Connection, node: Connection) -> None:
    create(owner)

    write(
        node,
        record(account=None, access_key=KEY, claimed=True),
        record(account=None, access_key="AKIANOBODYNOBODYNOBO", claimed=True),
    )

    unknown, known = written(node)
    assert (known["account"], known["claimed"]) == (keys(owner)[KEY]["account"], True)
    assert unknown["account"] is None


@pytest.mark.parametrize(
    "statement",
    [
        "insert into skipmq.audit_record default values",
        "select from skipmq.audit_record",
        "update skipmq.audit_record set outcome = 'done'",
        "delete from skipmq.audit_record",
        "truncate skipmq.audit_record",
    ],
)
def test_node_has_no_other_way_to_the_table(node: Connection, statement: str) -> None:
    write(node, record())

    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        node.execute(statement.encode())

    assert written(node)[0]["account"] == ACCOUNT
