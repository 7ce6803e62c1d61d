"""Numbers of minutes of several partitions."""

from skipmq.broker.minutes import BrokerMinute, added


def test_messages_of_a_partition_hold_until_its_next_number() -> None:
    busy = [
        *(BrokerMinute(minute, "messages", "", 5) for minute in (0, 60, 120, 180)),
        BrokerMinute(180, "sent", "", 1),
    ]
    idle = [BrokerMinute(60, "messages", "", 2), BrokerMinute(120, "sent", "", 1)]

    assert added([busy, idle]) == [
        BrokerMinute(0, "messages", "", 5),
        BrokerMinute(60, "messages", "", 7),
        BrokerMinute(120, "messages", "", 7),
        BrokerMinute(120, "sent", "", 1),
        BrokerMinute(180, "messages", "", 7),
        BrokerMinute(180, "sent", "", 1),
    ]
