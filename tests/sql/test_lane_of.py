import json

import pytest

from support.postgres import Connection
from support.sql import number


@pytest.mark.parametrize(
    ("mode", "priority", "lane"),
    [("none", "7", 10), ("strict", "7", 17), ("weighted", "0", 10), ("strict", "x", 10)],
)
def test_lane_is_10_and_the_priority_where_the_queue_has_priorities(
    owner: Connection, mode: str, priority: str, lane: int
) -> None:
    attributes = {"SkipMQ.Priority": {"DataType": "Number", "StringValue": priority}}

    assert number(owner, "select skipmq.lane_of(%s, %s)", mode, json.dumps(attributes)) == lane
    assert number(owner, "select skipmq.lane_of(%s, null)", mode) == 10
