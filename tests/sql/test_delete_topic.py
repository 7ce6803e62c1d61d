from support.postgres import Connection
from support.sql import number
from support.topics import Topic


def test_topic_is_deleted_with_its_subscriptions(owner: Connection) -> None:
    Topic(owner).subscribe("orders")
    delete = "select skipmq.delete_topic('news', '000000000000', 'us-east-1')"

    assert number(owner, delete) is True
    assert number(owner, delete) is False
    assert number(owner, "select count(*) from skipmq.subscription") == 0
