import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import ClientError

from support.http import ACCOUNT, NodeProcess, client
from support.postgres import Databases, as_node

FRIEND, OTHER = "111111111111", "222222222222"
NOT_A_LABEL = (
    "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length."
)


@pytest.fixture(scope="module")
def nodes(embedded_databases: Databases) -> Iterator[list[str]]:
    """Give the URLs of two nodes on one database: a connection to one never meets the other."""
    url = as_node(embedded_databases.migrated())
    with (
        NodeProcess(database_url=url, workers=1) as one,
        NodeProcess(database_url=url, workers=1) as two,
    ):
        yield [one.ready().url, two.ready().url]


def policy(sqs: Any, queue: str) -> Any:
    answer = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Policy"])
    return json.loads(answer["Attributes"]["Policy"]) if "Attributes" in answer else None


def labels(sqs: Any, queue: str) -> list[str]:
    return [statement["Sid"] for statement in policy(sqs, queue)["Statement"]]


def add(sqs: Any, queue: str, label: str = "label", **changes: list[str]) -> None:
    given = {"AWSAccountIds": [FRIEND], "Actions": ["SendMessage"]} | changes
    sqs.add_permission(QueueUrl=queue, Label=label, **given)


def refused(caught: pytest.ExceptionInfo[ClientError]) -> tuple[str, str]:
    error = caught.value.response["Error"]
    return error["Code"], error["Message"]


def test_add_writes_the_policy_that_aws_writes(sqs: Any, queue: str, name: str) -> None:
    add(sqs, queue, "friends")

    arn = f"arn:aws:sqs:us-east-1:{ACCOUNT}:{name}"
    assert policy(sqs, queue) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "friends",
                "Effect": "Allow",
                "Principal": {"AWS": f"arn:aws:iam::{FRIEND}:root"},
                "Action": "SQS:SendMessage",
                "Resource": arn,
            }
        ],
    }


def test_add_of_several_accounts_and_actions_lists_them(sqs: Any, queue: str) -> None:
    add(sqs, queue, AWSAccountIds=[FRIEND, OTHER], Actions=["ReceiveMessage", "DeleteMessage"])

    (statement,) = policy(sqs, queue)["Statement"]
    assert statement["Principal"] == {
        "AWS": [f"arn:aws:iam::{FRIEND}:root", f"arn:aws:iam::{OTHER}:root"]
    }
    assert statement["Action"] == ["SQS:ReceiveMessage", "SQS:DeleteMessage"]


def test_add_of_the_star_allows_every_action(sqs: Any, queue: str) -> None:
    add(sqs, queue, Actions=["*"])

    assert policy(sqs, queue)["Statement"][0]["Action"] == "SQS:*"


@pytest.mark.parametrize("listed", [True, False])
def test_add_to_a_policy_that_was_set_keeps_what_it_says(
    sqs: Any, queue: str, *, listed: bool
) -> None:
    mine = {"Sid": "mine", "Effect": "Deny", "Principal": "*", "Action": "*", "Resource": "*"}
    present = {
        "Version": "2012-10-17",
        "Id": "handmade",
        "Statement": [mine] if listed else mine,
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": json.dumps(present)})

    add(sqs, queue, "friends")

    found = policy(sqs, queue)
    assert (found["Version"], found["Id"]) == ("2012-10-17", "handmade")
    assert found["Statement"][0] == mine
    assert labels(sqs, queue) == ["mine", "friends"]


def test_remove_takes_one_statement_and_with_the_last_the_policy(sqs: Any, queue: str) -> None:
    add(sqs, queue, "first")
    add(sqs, queue, "second")

    sqs.remove_permission(QueueUrl=queue, Label="first")
    rest = labels(sqs, queue)
    sqs.remove_permission(QueueUrl=queue, Label="second")

    assert rest == ["second"]
    assert policy(sqs, queue) is None


@pytest.mark.parametrize("label", ["never", ""])
def test_remove_of_a_label_that_is_not_there_is_refused(sqs: Any, queue: str, label: str) -> None:
    add(sqs, queue, "there")

    with pytest.raises(ClientError) as caught:
        sqs.remove_permission(QueueUrl=queue, Label=label)

    text = f"Value {label} for parameter Label is invalid. Reason: can't find label."
    assert refused(caught) == ("InvalidParameterValue", text)
    assert labels(sqs, queue) == ["there"]


def test_add_of_a_label_that_is_there_is_refused(sqs: Any, queue: str) -> None:
    add(sqs, queue, "twice")

    with pytest.raises(ClientError) as caught:
        add(sqs, queue, "twice", Actions=["*"])

    text = "Value twice for parameter Label is invalid. Reason: Already exists."
    assert refused(caught) == ("InvalidParameterValue", text)
    assert labels(sqs, queue) == ["twice"]


@pytest.mark.parametrize("label", ["", "a b", "ä", "l" * 81])
def test_label_out_of_bounds_is_refused(sqs: Any, queue: str, label: str) -> None:
    with pytest.raises(ClientError) as caught:
        add(sqs, queue, label)

    text = f"Value {label} for parameter Label is invalid. Reason: {NOT_A_LABEL}"
    assert refused(caught) == ("InvalidParameterValue", text)


def test_longest_label_is_taken(sqs: Any, queue: str) -> None:
    add(sqs, queue, "L-_0" * 20)

    assert labels(sqs, queue) == ["L-_0" * 20]


@pytest.mark.parametrize("action", ["CreateQueue", "AddPermission", "Fly", "sendmessage", "SQS:*"])
def test_action_that_cannot_be_granted_is_refused(sqs: Any, queue: str, action: str) -> None:
    with pytest.raises(ClientError) as caught:
        add(sqs, queue, Actions=["SendMessage", action])

    text = (
        f"Value SQS:{action} for parameter ActionName is invalid."
        " Reason: Only the queue owner is allowed to invoke this action."
    )
    assert refused(caught) == ("InvalidParameterValue", text)
    assert policy(sqs, queue) is None


def test_seven_actions_are_taken_and_eight_are_refused(sqs: Any, queue: str) -> None:
    seven = ["ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl"]
    seven += ["PurgeQueue", "ReceiveMessage", "SendMessage"]
    add(sqs, queue, Actions=seven)

    with pytest.raises(sqs.exceptions.OverLimit) as caught:
        add(sqs, queue, "more", Actions=[*seven, "ListDeadLetterSourceQueues"])

    text = "8 Actions were found, maximum allowed is 7."
    assert refused(caught) == ("OverLimit", text)
    assert labels(sqs, queue) == ["label"]


@pytest.mark.parametrize("account", ["1", "11111111111a", "1111111111111", "*", ""])
def test_account_that_cannot_be_one_is_refused(sqs: Any, queue: str, account: str) -> None:
    with pytest.raises(ClientError) as caught:
        add(sqs, queue, AWSAccountIds=[FRIEND, account])

    text = f"Value [{account}] for parameter PrincipalId is invalid. Reason: Unable to verify."
    assert refused(caught) == ("InvalidParameterValue", text)
    assert policy(sqs, queue) is None


def test_request_without_actions_or_accounts_is_refused(sqs: Any, queue: str) -> None:
    with pytest.raises(ClientError) as nothing:
        add(sqs, queue, Actions=[])
    with pytest.raises(ClientError) as nobody:
        add(sqs, queue, AWSAccountIds=[])

    assert refused(nothing) == (
        "MissingParameter",
        "The request must contain the parameter Actions.",
    )
    assert refused(nobody) == (
        "InvalidParameterValue",
        "Value [] for parameter PrincipalId is invalid. Reason: Unable to verify.",
    )


def test_twenty_statements_fit_and_one_more_is_refused(sqs: Any, queue: str) -> None:
    twenty = [f"label-{n}" for n in range(20)]
    for label in twenty:
        add(sqs, queue, label)

    with pytest.raises(sqs.exceptions.OverLimit):
        add(sqs, queue, "one-more")

    assert labels(sqs, queue) == twenty


def test_policy_that_would_become_too_long_is_refused(sqs: Any, queue: str) -> None:
    present = json.dumps({"Id": "x" * 8_000, "Statement": []})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": present})

    with pytest.raises(sqs.exceptions.OverLimit):
        add(sqs, queue)

    assert policy(sqs, queue) == json.loads(present)


def test_two_nodes_that_add_at_the_same_time_lose_nothing(
    nodes: list[str], name: str, wire: str
) -> None:
    clients = [client(url, wire) for url in nodes]
    queue = clients[0].create_queue(QueueName=name)["QueueUrl"]

    def add_all(number: int) -> None:
        for n in range(10):
            add(clients[number], queue, f"{number}-{n}")

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(add_all, number) for number in range(2)]:
            done.result(60)

    expected = {f"{number}-{n}" for number in range(2) for n in range(10)}
    assert [set(labels(sqs, queue)) for sqs in clients] == [expected] * 2


def test_many_that_add_and_remove_at_the_same_time_lose_nothing(
    nodes: list[str], name: str, wire: str
) -> None:
    clients = [client(url, wire) for url in nodes * 3]
    queue = clients[0].create_queue(QueueName=name)["QueueUrl"]
    add(clients[0], queue, "stays")

    def add_and_remove(number: int) -> None:
        for n in range(3):
            add(clients[number], queue, f"{number}-{n}")
        for n in (0, 2):
            clients[number].remove_permission(QueueUrl=queue, Label=f"{number}-{n}")

    with ThreadPoolExecutor(6) as pool:
        for done in [pool.submit(add_and_remove, number) for number in range(6)]:
            done.result(60)

    assert set(labels(clients[1], queue)) == {"stays", *(f"{number}-1" for number in range(6))}


@pytest.mark.parametrize(
    ("action", "more"),
    [
        ("add_permission", {"AWSAccountIds": [FRIEND], "Actions": ["*"]}),
        ("remove_permission", {}),
    ],
)
def test_queue_that_is_not_there_is_told(
    sqs: Any, broker: NodeProcess, name: str, action: str, more: dict[str, Any]
) -> None:
    with pytest.raises(sqs.exceptions.QueueDoesNotExist):
        getattr(sqs, action)(QueueUrl=f"{broker.url}/{ACCOUNT}/{name}", Label="label", **more)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"Resource": "$sqs_queue_arn"},
        {"Resource": ["orders", "http://localhost:9324/000000000000/orders"]},
        {"Resource": "*", "Principal": {"AWS": "AIDACKCEVSQ6C2EXAMPLE"}},
        {"Condition": {"ArnEquals": {"aws:SourceArn": "'$sns_topic_arn'"}}},
        {"Condition": {"ArnLike": {"aws:SourceArn": ["my-topic", "*role*"]}}},
    ],
)
def test_policy_is_stored_unchanged_whatever_it_is_about(
    sqs: Any, queue: str, name: str, members: dict[str, Any]
) -> None:
    statement = {"Effect": "Allow", "Principal": "*", "Action": "sqs:SendMessage"} | members
    text = json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=1)

    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": text})
    created = sqs.create_queue(QueueName=f"{name}-created", Attributes={"Policy": text})

    for each in (queue, created["QueueUrl"]):
        found = sqs.get_queue_attributes(QueueUrl=each, AttributeNames=["Policy"])["Attributes"]
        assert found == {"Policy": text}
