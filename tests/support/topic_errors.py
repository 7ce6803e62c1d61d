"""Requests that SNS refuses, with the code and the text of its error."""

import json
from typing import Any

ACCOUNT = "000000000000"
ARN = f"arn:aws:sns:us-east-1:{ACCOUNT}"
NOWHERE = f"{ARN}:nowhere"


def text(value: str, type_: str = "String") -> dict[str, Any]:
    return {"DataType": type_, "StringValue": value}


ERRORS: list[tuple[str, dict[str, Any], str, str]] = [
    ("create_topic", {"Name": "a b"}, "InvalidParameter", "Invalid parameter: Topic Name"),
    ("create_topic", {"Name": "x" * 257}, "InvalidParameter", "Invalid parameter: Topic Name"),
    ("create_topic", {"Name": "x.fifo"}, "InvalidParameter", "Invalid parameter: Topic Name"),
    (
        "create_topic",
        {"Name": "x", "Attributes": {"FifoTopic": "true"}},
        "InvalidParameter",
        "Invalid parameter: Topic Name",
    ),
    (
        "create_topic",
        {"Name": "x", "Tags": [{"Key": "a", "Value": "1"}, {"Key": "a", "Value": "2"}]},
        "InvalidParameter",
        "Invalid parameter: Duplicated keys are not allowed.",
    ),
    ("get_topic_attributes", {"TopicArn": NOWHERE}, "NotFound", "Topic does not exist"),
    (
        "get_topic_attributes",
        {"TopicArn": "x"},
        "InvalidParameter",
        "Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 1",
    ),
    (
        "delete_topic",
        {"TopicArn": ""},
        "InvalidParameter",
        "Invalid parameter: TopicArn Reason: An ARN must have at least 6 elements, not 1",
    ),
    (
        "delete_topic",
        {"TopicArn": f"arn:aws:sns:eu-west-1:{ACCOUNT}:x"},
        "InvalidParameter",
        "Invalid parameter: TopicArn",
    ),
    ("list_subscriptions_by_topic", {"TopicArn": NOWHERE}, "NotFound", "Topic does not exist"),
    (
        "tag_resource",
        {"ResourceArn": NOWHERE, "Tags": [{"Key": "a", "Value": "b"}]},
        "ResourceNotFound",
        "Resource does not exist",
    ),
    (
        "get_subscription_attributes",
        {"SubscriptionArn": f"{NOWHERE}:00000000-0000-0000-0000-000000000000"},
        "NotFound",
        "Subscription does not exist",
    ),
    (
        "unsubscribe",
        {"SubscriptionArn": NOWHERE},
        "InvalidParameter",
        "Invalid parameter: SubscriptionId",
    ),
    (
        "confirm_subscription",
        {"TopicArn": NOWHERE, "Token": "randomtoken"},
        "InvalidParameter",
        "Invalid token",
    ),
    (
        "confirm_subscription",
        {"TopicArn": NOWHERE, "Token": "51" * 144},
        "InvalidParameter",
        "Invalid parameter: Token",
    ),
    (
        "confirm_subscription",
        {"TopicArn": "x", "Token": "51" * 144},
        "InvalidParameter",
        "Invalid parameter: Topic",
    ),
    (
        "tag_resource",
        {"ResourceArn": f"{ARN}:a b", "Tags": []},
        "ResourceNotFound",
        "Resource does not exist",
    ),
    (
        "create_topic",
        {"Name": "x", "DataProtectionPolicy": "{}"},
        "InvalidParameter",
        "Invalid parameter: DataProtectionPolicy Reason: SkipMQ has no data protection policies",
    ),
    (
        "create_topic",
        {"Name": "x", "Attributes": {"ContentBasedDeduplication": "true"}},
        "InvalidParameter",
        "Invalid parameter: Attributes Reason: Content-based deduplication can only be set for FIFO"
        " topics",
    ),
    ("publish", {"TopicArn": NOWHERE, "Message": "x"}, "NotFound", "Topic does not exist"),
    (
        "publish",
        {"Message": "x"},
        "InvalidParameter",
        "Invalid parameter: TopicArn or TargetArn Reason: no value for required parameter",
    ),
    (
        "publish",
        {"TargetArn": f"{ARN}:endpoint/GCM/x/y", "Message": "x"},
        "InvalidParameter",
        "Invalid parameter: TargetArn Reason: No endpoint found for the target arn specified",
    ),
]


# On a topic that exists.
OF_TOPIC: list[tuple[str, dict[str, Any], str, str]] = [
    (
        "set_topic_attributes",
        {"AttributeName": "FifoTopic", "AttributeValue": "true"},
        "InvalidParameter",
        "Invalid parameter: AttributeName",
    ),
    (
        "add_permission",
        {"Label": "x", "AWSAccountId": [ACCOUNT], "ActionName": ["Whatever"]},
        "InvalidParameter",
        "Invalid parameter: Policy statement action out of service scope!",
    ),
    (
        "subscribe",
        {"Protocol": "carrier-pigeon", "Endpoint": "x"},
        "InvalidParameter",
        "Invalid parameter: Amazon SNS does not support this protocol string: carrier-pigeon",
    ),
    (
        "subscribe",
        {"Protocol": "sqs", "Endpoint": "http://localhost/000000000000/x"},
        "InvalidParameter",
        "Invalid parameter: SQS endpoint ARN",
    ),
    (
        "subscribe",
        {"Protocol": "sqs", "Endpoint": f"arn:aws:sqs:us-east-1:{ACCOUNT}:x.fifo"},
        "InvalidParameter",
        "Invalid parameter: Invalid parameter: Endpoint Reason: FIFO SQS Queues can not be"
        " subscribed to standard SNS topics",
    ),
    (
        "subscribe",
        {
            "Protocol": "sqs",
            "Endpoint": f"arn:aws:sqs:us-east-1:{ACCOUNT}:x",
            "Attributes": {"RawMessageDelivery": "yes"},
        },
        "InvalidParameter",
        "Invalid parameter: Attributes Reason: RawMessageDelivery: Invalid value [yes]. Must be"
        " true or false.",
    ),
    (
        "subscribe",
        {
            "Protocol": "sqs",
            "Endpoint": f"arn:aws:sqs:us-east-1:{ACCOUNT}:x",
            "Attributes": {"RedrivePolicy": json.dumps({"deadLetterTargetArn": "x"})},
        },
        "InvalidParameter",
        "Invalid parameter: Attributes Reason: RedrivePolicy: deadLetterTargetArn is an invalid"
        " arn",
    ),
    (
        "subscribe",
        {
            "Protocol": "http",
            "Endpoint": "http://a",
            "Attributes": {"DeliveryPolicy": '{"healthyRetryPolicy": {"numRetries": 101}}'},
        },
        "InvalidParameter",
        "Invalid parameter: Attributes Reason: DeliveryPolicy: Expected `int` <= 100 - at"
        " `$.healthyRetryPolicy.numRetries`",
    ),
    (
        "set_topic_attributes",
        {
            "AttributeName": "DeliveryPolicy",
            "AttributeValue": '{"http": {"defaultThrottlePolicy": {"maxReceivesPerSecond": 0}}}',
        },
        "InvalidParameter",
        "Invalid parameter: DeliveryPolicy",
    ),
    *(
        (
            "subscribe",
            {"Protocol": protocol, "Endpoint": "x!"},
            "InvalidParameter",
            f"Invalid parameter: {text}",
        )
        for protocol, text in (
            ("http", "Endpoint must match the specified protocol"),
            ("email", "Email address"),
            ("sms", "Invalid SMS endpoint: x!"),
            ("application", "Application endpoint arn invalid:x!"),
            ("lambda", "Lambda endpoint ARN"),
            ("firehose", "Firehose endpoint ARN"),
        )
    ),
    ("publish", {"Message": ""}, "InvalidParameter", "Invalid parameter: Empty message"),
    (
        "publish",
        {"Message": "x" * 262_145},
        "InvalidParameter",
        "Invalid parameter: Message too long",
    ),
    (
        "publish",
        {"Message": "x", "Subject": ""},
        "InvalidParameter",
        "Invalid parameter: Subject",
    ),
    (
        "publish",
        {"Message": "x", "MessageStructure": "json"},
        "InvalidParameter",
        "Invalid parameter: Message Structure - JSON message body failed to parse",
    ),
    (
        "publish",
        {"Message": '{"sqs": "x", "default": 1}', "MessageStructure": "json"},
        "InvalidParameter",
        "Invalid parameter: Message Structure - No default entry in JSON message body",
    ),
    (
        "publish",
        {"Message": '{"default": "\\u0000"}', "MessageStructure": "json"},
        "InvalidParameter",
        "Invalid parameter: Message Reason: Invalid characters found",
    ),
    (
        "publish",
        {"Message": "x", "MessageDeduplicationId": "x"},
        "InvalidParameter",
        "Invalid parameter: MessageDeduplicationId Reason: The request includes"
        " MessageDeduplicationId parameter that is not valid for this topic type",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a": text("b", "Stringx")}},
        "ParameterValueInvalid",
        "The message attribute 'a' has an invalid message attribute type, the set of supported"
        " type prefixes is Binary, Number, and String.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a": text("b", "Binary")}},
        "ParameterValueInvalid",
        "The message attribute 'a' with type 'Binary' must use field 'Binary'.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a": text("")}},
        "ParameterValueInvalid",
        "The message attribute 'a' must contain non-empty message attribute value for message"
        " attribute type 'String'.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a": text("b", "Number")}},
        "ParameterValueInvalid",
        "Could not cast message attribute 'a' value to number.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a^": text("b")}},
        "ParameterValueInvalid",
        "Invalid non-alphanumeric character '#x5E' was found in the message attribute name. Can"
        " only include alphanumeric characters, hyphens, underscores, or dots.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {".a": text("b")}},
        "ParameterValueInvalid",
        "Invalid message attribute name starting with character '.' was found.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a..b": text("b")}},
        "ParameterValueInvalid",
        "Message attribute name can not have successive '.' character.",
    ),
    (
        "publish",
        {"Message": "x", "MessageAttributes": {"a" * 257: text("b")}},
        "ParameterValueInvalid",
        "Length of message attribute name must be less than 256 bytes.",
    ),
    (
        "publish_batch",
        {"PublishBatchRequestEntries": [{"Id": str(n), "Message": "x"} for n in range(11)]},
        "TooManyEntriesInBatchRequest",
        "The batch request contains more entries than permissible.",
    ),
    (
        "publish_batch",
        {"PublishBatchRequestEntries": [{"Id": "1", "Message": "x"}] * 2},
        "BatchEntryIdsNotDistinct",
        "Two or more batch entries in the request have the same Id.",
    ),
    (
        "publish_batch",
        {"PublishBatchRequestEntries": [{"Id": "a b", "Message": "x"}]},
        "InvalidBatchEntryId",
        "The Id of a batch entry in the batch request contains an impermissible character: a b",
    ),
    (
        "publish_batch",
        {"PublishBatchRequestEntries": [{"Id": i, "Message": "x" * 140_000} for i in "ab"]},
        "BatchRequestTooLong",
        "The length of all the messages put together is more than the limit.",
    ),
]
