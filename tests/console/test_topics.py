"""The pages of topics."""

from support.http import NodeProcess, client
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in


def test_topic_is_listed_shown_and_published_to(node: NodeProcess) -> None:
    visitor, sqs = Visitor(node.url), client(node.url)
    sns = client(node.url, "query", service="sns")
    sqs.create_queue(QueueName="shown-parcels")
    topic = sns.create_topic(Name="shown-orders")["TopicArn"]
    endpoint = "arn:aws:sqs:us-east-1:000000000000:shown-parcels"
    raw = {"RawMessageDelivery": "true"}
    sns.subscribe(TopicArn=topic, Protocol="sqs", Endpoint=endpoint, Attributes=raw)

    assert "shown-orders" in visitor.get("topics").body
    page = visitor.get("topics/shown-orders").body
    assert "/queues/shown-parcels" in page
    assert "SubscriptionsConfirmed" in page
    done = visitor.post("topics/shown-orders", {"Message": "a lamp"})
    refused = visitor.post("topics/shown-orders", {"Message": "a lamp", "Subject": "two\nlines"})

    assert (done.status, refused.status) == (303, 400)
    (message,) = sqs.receive_message(QueueUrl="shown-parcels", MaxNumberOfMessages=10)["Messages"]
    assert message["Body"] == "a lamp"
    assert visitor.get("topics/no-such-topic").status == 404


def test_topics_are_for_those_who_may_list_them(signing: NodeProcess, keys: Keys) -> None:
    reader = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))
    sender = signed_in(signing, keys.create(ACCOUNT, "--role", "producer"))

    assert '/topics"' in reader.get("queues").body
    assert '/topics"' not in sender.get("queues").body
    assert reader.get("topics").status == 200
    assert "Your key may not list topics" in sender.get("topics").body
    client(signing.url, "query", service="sns", **keys.create()).create_topic(Name="unheard")
    assert reader.post("topics/unheard", {"Message": "x"}).status == 403
