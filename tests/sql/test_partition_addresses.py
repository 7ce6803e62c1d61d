"""partition_addresses is empty where there is no router; tests/partitions has those of one."""

from support.postgres import Connection


def test_database_that_is_no_router_has_no_partitions(node: Connection) -> None:
    assert node.execute("select skipmq.partition_addresses()").fetchone() == ([],)
