import json

from support.postgres import Connection


def test_notification_is_json_in_the_order_of_sns(owner: Connection) -> None:
    ((head, heads, tail),) = owner.execute("""
        select * from skipmq.notification(
          'arn', '00000000-0000-0000-0000-000000000000', 5, 's', E'say "hi"',
          '{"b": {"DataType": "Number", "StringValue": "1"},
            "a": {"DataType": "Binary", "BinaryValue": "eA=="}}',
          '2026-01-02 03:04:05.678Z', '1', '{"http": "for http"}')
    """).fetchall()

    found = json.loads(head + tail)
    assert json.loads(heads["http"] + tail) == {**found, "Message": "for http"}
    assert [*found.items()] == [
        ("Type", "Notification"),
        ("MessageId", "00000000-0000-0000-0000-000000000000"),
        ("SequenceNumber", "10000000000000000005"),
        ("TopicArn", "arn"),
        ("Subject", "s"),
        ("Message", 'say "hi"'),
        ("Timestamp", "2026-01-02T03:04:05.678Z"),
        (
            "MessageAttributes",
            {"b": {"Type": "Number", "Value": "1"}, "a": {"Type": "Binary", "Value": "eA=="}},
        ),
    ]
