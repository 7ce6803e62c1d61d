from support.audit import record, write, written
from support.postgres import Connection
from support.sql import advance, number

EXPIRE = "select skipmq.expire_audit_records('90 days', %s::int)"


def test_old_records_are_deleted_in_chunks_and_others_stay(owner: Connection) -> None:
    write(owner, *(record(request_id=f"old {n}") for n in range(5)))
    advance(owner, "1 day")
    write(owner, record(request_id="new"))

    assert number(owner, EXPIRE, 100) == 0
    advance(owner, "90 days 1 minute")

    assert [number(owner, EXPIRE, 3) for _ in range(3)] == [3, 2, 0]
    assert [each["request_id"] for each in written(owner)] == ["new"]


def test_last_day_is_kept_whatever_a_node_says(node: Connection) -> None:
    write(node, record(age=23 * 3_600.0), record(age=25 * 3_600.0))

    assert number(node, "select skipmq.expire_audit_records('0 days')") == 1


def test_nothing_is_done_while_another_janitor_is_at_it(
    owner: Connection, node: Connection
) -> None:
    write(owner, record(age=91 * 86_400.0))
    with owner.transaction(force_rollback=True):
        assert number(owner, EXPIRE, 1) == 1
        assert number(node, EXPIRE, 1) == 0

    assert number(node, EXPIRE, 1) == 1
