from support.postgres import Connection
from support.topics import Topic


def test_topic_is_found_with_the_numbers_of_its_subscriptions(owner: Connection) -> None:
    topic = Topic(owner)
    topic.subscribe("orders")
    topic.subscribe("others", confirmed=False, token="x")

    find = "select * from skipmq.get_topic(%s, '000000000000', 'us-east-1', true)"
    assert owner.execute(find, ("news",)).fetchall() == [(topic.id, {}, {}, 1, 1, 0)]
    assert owner.execute(find, ("other",)).fetchall() == []
