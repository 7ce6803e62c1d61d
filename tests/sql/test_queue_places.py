from support.postgres import Connection


def test_places_of_a_name_are_listed_and_those_of_others_not(node: Connection) -> None:
    for name, account, region in (
        ("orders", "000000000002", "us-east-1"),
        ("orders", "000000000001", "eu-central-1"),
        ("other", "000000000001", "us-east-1"),
    ):
        node.execute("select skipmq.create_queue(%s, '{}', '{}', %s, %s)", (name, account, region))

    places = node.execute("select * from skipmq.queue_places('orders')").fetchall()

    assert places == [("000000000001", "eu-central-1"), ("000000000002", "us-east-1")]
    assert node.execute("select * from skipmq.queue_places('absent')").fetchall() == []
