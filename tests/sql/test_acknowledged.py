"""How many standbys have what was written: see tests/server/test_replication_mode.py for some."""

from support.postgres import Connection
from support.sql import number


def test_position_is_the_end_of_what_is_on_disk_or_what_was_asked(owner: Connection) -> None:
    before = number(owner, "select pg_current_wal_flush_lsn()::text")
    position = number(owner, "select position from skipmq.acknowledged()")

    asked = owner.execute("select position, acknowledged from skipmq.acknowledged(%s)", (before,))

    assert number(owner, "select %s::pg_lsn >= %s::pg_lsn", position, before)
    assert asked.fetchone() == (before, 0)
