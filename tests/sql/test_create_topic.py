import psycopg
import pytest

from support.postgres import Connection
from support.sql import number
from support.topics import Topic


def test_topic_is_created_once(owner: Connection) -> None:
    topic = Topic(owner)

    again = "select topic_id from skipmq.create_topic('news') where not is_new"
    assert number(owner, again) == topic.id


def test_invalid_name_is_refused(owner: Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation):
        Topic(owner, "a b")
