"""Who may do what with topics: roles of keys, policies of topics, other accounts."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.access import code, known
from support.http import NodeProcess, client, eventually
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node

OTHER = "210987654321"


def test_topics_have_rights_of_their_own(embedded_databases: Databases, name: str) -> None:
    keys = Keys(embedded_databases.migrated())
    url = as_node(keys.url)
    with NodeProcess(database_url=url, workers=1, auth="on", master_key=MASTER_KEY) as node:
        node.ready()
        _check(node, keys, name)


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
