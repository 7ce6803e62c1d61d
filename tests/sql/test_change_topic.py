import json

from support.postgres import Connection
from support.sql import number
from support.topics import Topic


def test_attributes_and_tags_are_added_and_removed(owner: Connection) -> None:
    topic = Topic(owner)
    change = "select skipmq.change_topic(%s, %s, %s, %s)"
    number(owner, change, topic.id, json.dumps({"a": "1", "b": "2"}), '{"t": "x", "u": "y"}', [])
    number(owner, change, topic.id, json.dumps({"a": None, "c": "3"}), "{}", ["t"])

    found = owner.execute("select attributes, tags from skipmq.topic").fetchall()
    assert found == [({"b": "2", "c": "3"}, {"u": "y"})]


def test_change_of_another_policy_changes_nothing(owner: Connection) -> None:
    topic = Topic(owner)
    replace = "select skipmq.change_topic(%s, %s, p_old_policy => %s)"

    assert number(owner, replace, topic.id, '{"Policy": "one"}', "") is True
    assert number(owner, replace, topic.id, '{"Policy": "two"}', "") is False
    assert number(owner, "select attributes ->> 'Policy' from skipmq.topic") == "one"
