import pytest

from support.postgres import Connection
from support.sql import number

RATE = """
select skipmq.delivery_rate(
  jsonb_build_object('DeliveryPolicy', %s::text), jsonb_build_object('DeliveryPolicy', %s::text))
"""
OWN = '{"throttlePolicy": {"maxReceivesPerSecond": 5}}'
TOPIC = '{"http": {"defaultThrottlePolicy": {"maxReceivesPerSecond": 2}}}'
FIRM = TOPIC.replace('{"default', '{"disableSubscriptionOverrides": true, "default')


@pytest.mark.parametrize(
    ("own", "topic", "rate"),
    [
        (None, None, None),
        (OWN, None, 5),
        (OWN, TOPIC, 5),
        (OWN, FIRM, 2),
        ('{"throttlePolicy": null}', TOPIC, 2),
    ],
)
def test_rate_is_that_of_the_subscription_before_its_topic(
    owner: Connection, own: str | None, topic: str | None, rate: int | None
) -> None:
    assert number(owner, RATE, own, topic) == rate
