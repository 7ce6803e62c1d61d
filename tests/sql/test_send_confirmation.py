import json

from support.postgres import Connection
from support.topics import HTTP, Topic


def test_confirmation_is_json_with_the_link_of_its_token(owner: Connection) -> None:
    topic = Topic(owner)
    id_ = topic.subscribe("http://a", **HTTP, token="51", confirmed=False)

    ((type_, body),) = owner.execute("select type, body from skipmq.http_delivery").fetchall()
    found = json.loads(body)
    assert type_ == found["Type"] == "SubscriptionConfirmation"
    assert found["SubscribeURL"] == (
        "http://node/?Action=ConfirmSubscription"
        "&TopicArn=arn:aws:sns:us-east-1:000000000000:news&Token=51"
    )
    ended = '{"ended": true, "confirmed": false, "token": "52"}'
    change = "select skipmq.change_subscription(%s, %s, %s)"
    for _ in range(2):
        owner.execute(change, (topic.id, id_, ended))
    (row,) = owner.execute(
        "select body::json ->> 'Token' from skipmq.http_delivery"
        " where type = 'UnsubscribeConfirmation'"
    ).fetchall()
    assert row == ("52",)
