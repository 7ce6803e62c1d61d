from support.postgres import Connection
from support.sql import number
from support.topics import Topic

LIST = (
    "select count(*) from skipmq.list_subscriptions('000000000000', 'us-east-1', %s, %s, %s, %s, 9)"
)


def test_subscriptions_are_found_by_topic_id_and_token(owner: Connection) -> None:
    first, second = Topic(owner), Topic(owner, "olds")
    id_ = first.subscribe("orders")
    second.subscribe("orders", token="secret")

    assert number(owner, LIST, None, None, None, "") == 2
    assert number(owner, LIST, "news", None, None, "") == 1
    assert number(owner, LIST, "news", id_, None, "") == 1
    assert number(owner, LIST, "olds", id_, None, "") == 0
    assert number(owner, LIST, None, None, "secret", "") == 1
    assert number(owner, LIST, None, None, None, "arn:aws:sns:us-east-1:000000000000:o") == 1


def test_token_is_forgotten_after_two_days(owner: Connection) -> None:
    Topic(owner).subscribe("orders", token="secret")
    owner.execute("update skipmq.subscription set created_at = created_at - interval '49 hours'")

    assert number(owner, LIST, None, None, "secret", "") == 0
