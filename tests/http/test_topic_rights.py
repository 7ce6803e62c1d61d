"""Who may do what with topics: roles of keys, policies of topics, other accounts."""

from typing import Any

import psycopg
import pytest
from botocore.exceptions import ClientError

from support.access import code, known
from support.http import NodeProcess, client, eventually, raw
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node
from support.sql import number

OTHER = "210987654321"


def test_topics_have_rights_of_their_own(embedded_databases: Databases, name: str) -> None:
    keys = Keys(embedded_databases.migrated())
    url = as_node(keys.url)
    with NodeProcess(database_url=url, workers=1, auth="on", master_key=MASTER_KEY) as node:
        node.ready()
        _check(node, keys, name)
        _check_signed_end(node, keys, f"{name}-3")


def _check(node: NodeProcess, keys: Keys, name: str) -> None:
    def sns(*options: str, account: str = ACCOUNT) -> Any:
        key = keys.create(account, *options)
        known(client(node.url, **key))
        return client(node.url, "query", service="sns", **key)

    admin, producer, reader = (sns("--role", role) for role in ("admin", "producer", "reader"))
    other = sns("--name", "dave", account=OTHER)
    topic = admin.create_topic(Name=name)["TopicArn"]
    publish = {"TopicArn": topic, "Message": "x"}

    assert producer.publish(**publish)["MessageId"]
    with pytest.raises(ClientError, match=rf"to perform: SNS:CreateTopic on resource: .*{name}-2"):
        producer.create_topic(Name=f"{name}-2")
    assert [each["TopicArn"] for each in reader.list_topics()["Topics"]] == [topic]
    assert code(reader.publish, **publish) == "AuthorizationError"
    assert code(other.publish, **publish) == "AuthorizationError"
    assert code(other.publish, **publish | {"TopicArn": f"{topic}-2"}) == "AuthorizationError"
    admin.add_permission(
        TopicArn=topic, Label="l", AWSAccountId=[OTHER], ActionName=["Publish", "DeleteTopic"]
    )
    assert eventually(lambda: not code(other.publish, **publish))
    assert code(other.delete_topic, TopicArn=topic) == "AuthorizationError"


def _check_signed_end(node: NodeProcess, keys: Keys, name: str) -> None:
    sns = client(node.url, "query", service="sns", **keys.create(ACCOUNT, "--role", "admin"))
    topic = sns.create_topic(Name=name)["TopicArn"]
    address = {"Protocol": "http", "Endpoint": "http://127.0.0.1:1/", "ReturnSubscriptionArn": True}
    arn = sns.subscribe(TopicArn=topic, **address)["SubscriptionArn"]
    with psycopg.connect(keys.url) as database:
        token = number(database, "select token from skipmq.subscription")
    sns.confirm_subscription(TopicArn=topic, Token=token, AuthenticateOnUnsubscribe="true")
    link = f"{node.url}/?Action=Unsubscribe&SubscriptionArn={arn}"

    for headers in ({}, {"Authorization": ""}):
        assert raw(link, headers=headers).status == 403
    sns.unsubscribe(SubscriptionArn=arn)
    assert sns.list_subscriptions_by_topic(TopicArn=topic)["Subscriptions"] == []
