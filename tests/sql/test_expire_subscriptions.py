from support.postgres import Connection
from support.sql import advance, number
from support.topics import HTTP, Topic

EXPIRE = "select skipmq.expire_subscriptions(%s)"


def test_what_is_not_confirmed_within_two_days_is_removed(owner: Connection) -> None:
    topic = Topic(owner)
    pending = {**HTTP, "token": "51", "confirmed": False}
    topic.subscribe("orders")
    for each in ("a", "b"):
        topic.subscribe(f"http://{each}", **pending)
    assert number(owner, EXPIRE, 10) == 0

    advance(owner, "2 days")
    again = topic.subscribe("http://a", **pending)

    assert [number(owner, EXPIRE, 1) for _ in range(2)] == [1, 0]
    assert (
        number(owner, "select subscription_id::text from skipmq.subscription where not confirmed")
        == again
    )
