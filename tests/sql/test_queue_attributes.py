from support.postgres import Connection
from support.sql import Queue, number


def test_attributes_are_texts_under_sqs_names(owner: Connection) -> None:
    Queue(owner, VisibilityTimeout=12)

    attributes = number(owner, "select skipmq.queue_attributes(q) from skipmq.queue q")

    assert attributes == {
        "VisibilityTimeout": "12",
        "DelaySeconds": "0",
        "MaximumMessageSize": "1048576",
        "MessageRetentionPeriod": "345600",
        "ReceiveMessageWaitTimeSeconds": "0",
        "Policy": "",
        "RedrivePolicy": "",
        "RedriveAllowPolicy": "",
        "KmsMasterKeyId": "",
        "KmsDataKeyReusePeriodSeconds": "300",
        "SqsManagedSseEnabled": "true",
        "HistoryMode": "metadata",
        "ReplicationMode": "any",
    }
