"""What befell nodes and the database, of the numbers of minutes."""

from skipmq.actions.skipmq.troubles import events
from skipmq.broker.minutes import BrokerMinute


def test_minutes_of_a_condition_are_one_event_and_a_later_timeline_is_a_failover() -> None:
    found = [
        *(BrokerMinute(minute, "condition", "standbys", 12) for minute in (0, 60, 120, 300)),
        BrokerMinute(0, "timeline", "0.10", 1),
        BrokerMinute(60, "timeline", "1.4", 1),
        BrokerMinute(120, "timeline", "0.11", 1),
        BrokerMinute(180, "timeline", "0.9", 1),
        BrokerMinute(180, "node", "a:9324 0.1.0", 1),
    ]

    assert [
        (each["Event"], each["StartTimestamp"], each.get("EndTimestamp"), each.get("Detail"))
        for each in events(found)
    ] == [
        ("standbys", 0, 180, None),
        ("failover", 120, None, "timeline 11"),
        ("node-started", 180, None, "a:9324 0.1.0"),
        ("standbys", 300, 360, None),
    ]
