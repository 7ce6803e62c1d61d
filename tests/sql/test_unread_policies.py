from support.postgres import Connection
from support.sql import Queue
from support.topics import Topic


def test_policy_is_unread_until_its_digest_is_noted(owner: Connection) -> None:
    queue, topic = Queue(owner), Topic(owner)
    id_ = topic.subscribe("orders")
    unread = "select subscription_id::text, policy from skipmq.unread_policies(%s)"

    assert owner.execute(unread, (topic.id,)).fetchall() == []
    owner.execute("select skipmq.replace_policy(%s, '', 'new')", (queue.id,))
    assert owner.execute(unread, (topic.id,)).fetchall() == [(id_, "new")]
    owner.execute("update skipmq.subscription set policy_digest = md5('new')")
    assert owner.execute(unread, (topic.id,)).fetchall() == []
