"""partition_map of a database alone; tests/partitions has those of partitions and routers."""

from support.postgres import Connection


def test_database_alone_is_the_only_partition(node: Connection) -> None:
    assert node.execute("select * from skipmq.partition_map()").fetchone() == (0, 1, 1, None, [])
