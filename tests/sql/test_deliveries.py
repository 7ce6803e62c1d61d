from support.sql import Queue
from support.topics import Topic

DELIVERIES = """
select d.ok, d.target, d.body from skipmq.topic t
cross join lateral skipmq.deliveries(
  t, gen_random_uuid(), 'x', %s, null, 'head', null, 'tail', null, '{"a": 1}', null,
  '00000000-0000-0000-0000-000000000000', 10) d
"""


def test_each_subscription_has_its_envelope(orders: Queue) -> None:
    id_ = Topic(orders.connection).subscribe("orders", raw=False)

    ((ok, target, body),) = orders.connection.execute(DELIVERIES, (1,)).fetchall()

    assert (ok, target) == (True, orders.id)
    assert body == (
        'head,\n  "SigningCertURL" : "http://node/SimpleNotificationService-0.pem",\n'
        '  "UnsubscribeURL" : "http://node/?Action=Unsubscribe&SubscriptionArn='
        f'arn:aws:sns:us-east-1:000000000000:news:{id_}"tail'
    )


def test_what_matches_no_filter_or_is_pending_is_left_out(orders: Queue) -> None:
    topic = Topic(orders.connection)
    topic.subscribe("orders", filter="$.a == 1")
    topic.subscribe("a", filter="$.a == 2")
    topic.subscribe("b", confirmed=False)

    found = orders.connection.execute(DELIVERIES, (2_000_000,)).fetchall()

    assert found == [(False, None, "x")]  # It is too large for the queue.
