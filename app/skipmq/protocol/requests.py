"""The parameters of the 23 SQS actions: a class for each, with the members of AWS's JSON model.

Members that were not sent are None. The Query protocol flattens lists and maps to the names of
their elements or entries. These names are in the annotations; for a list of structures it is the
name of their class.
Source: botocore's SQS service model; a test compares these classes with it member by member.
"""

from typing import TYPE_CHECKING, Annotated, TypeAlias, TypeVar

import msgspec
from msgspec import Meta, Struct


class AttributeValue(msgspec.Struct, kw_only=True, omit_defaults=True, gc=False):
    """The value of a message attribute; SQS reserves the lists for the future."""

    StringValue: str | None = None
    BinaryValue: bytes | None = None
    StringListValues: Annotated[list[str], Meta(extra={"location": "StringListValue"})] | None = (
        None
    )
    BinaryListValues: Annotated[list[bytes], Meta(extra={"location": "BinaryListValue"})] | None = (
        None
    )
    DataType: str


T = TypeVar("T")
# The limit of fields in a form; attribute names are compared with those of each message.
MAXIMUM_ELEMENTS = 2_000


def elements(location: str) -> Meta:
    """Return the annotation of a list: the Query protocol's name of an element."""
    return Meta(max_length=MAXIMUM_ELEMENTS, extra={"location": location})


def entries(location: str, key: str = "Name", value: str = "Value") -> Meta:
    """Return the annotation of a map: the Query protocol's names of an entry, key and value."""
    names = {"location": location, "key_location": key, "value_location": value}
    return Meta(extra=names)


Integer: TypeAlias = Annotated[int, Meta(ge=-(1 << 31), le=(1 << 31) - 1)]
Long: TypeAlias = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
AttributeMap: TypeAlias = Annotated[dict[str, str], entries("Attribute")]
AttributeNameList: TypeAlias = Annotated[list[str], elements("AttributeName")]
MessageAttributeMap: TypeAlias = Annotated[dict[str, AttributeValue], entries("MessageAttribute")]
MessageSystemAttributeMap: TypeAlias = Annotated[
    dict[str, AttributeValue], entries("MessageSystemAttribute")
]
TagMap: TypeAlias = Annotated[dict[str, str], entries("Tag", "Key", "Value")]
EntryList: TypeAlias = Annotated[list[T], Meta(max_length=MAXIMUM_ELEMENTS)]


class Parameters(Struct, kw_only=True, omit_defaults=True, gc=False):
    """The parameters of a request, or a structure within them."""


class QueueParameters(Parameters, kw_only=True):
    """The parameters of an action on a queue; the codecs take a missing QueueUrl from the path."""

    if TYPE_CHECKING:
        QueueUrl: str
    else:
        QueueUrl: str | None = None


class AddPermission(QueueParameters, kw_only=True):
    Label: str
    AWSAccountIds: Annotated[list[str], elements("AWSAccountId")]
    Actions: Annotated[list[str], elements("ActionName")]


class CancelMessageMoveTask(Parameters, kw_only=True):
    TaskHandle: str


class ChangeMessageVisibility(QueueParameters, kw_only=True):
    ReceiptHandle: str
    VisibilityTimeout: Integer


class ChangeMessageVisibilityBatchRequestEntry(Parameters, kw_only=True):
    Id: str
    ReceiptHandle: str
    VisibilityTimeout: Integer | None = None


class ChangeMessageVisibilityBatch(QueueParameters, kw_only=True):
    Entries: EntryList[ChangeMessageVisibilityBatchRequestEntry]


class CreateQueue(Parameters, kw_only=True):
    QueueName: str
    Attributes: AttributeMap | None = None
    tags: TagMap | None = None


class DeleteMessage(QueueParameters, kw_only=True):
    ReceiptHandle: str


class DeleteMessageBatchRequestEntry(Parameters, kw_only=True):
    Id: str
    ReceiptHandle: str


class DeleteMessageBatch(QueueParameters, kw_only=True):
    Entries: EntryList[DeleteMessageBatchRequestEntry]


class DeleteQueue(QueueParameters): ...


class GetQueueAttributes(QueueParameters, kw_only=True):
    AttributeNames: AttributeNameList | None = None


class GetQueueUrl(Parameters, kw_only=True):
    QueueName: str
    QueueOwnerAWSAccountId: str | None = None


class ListDeadLetterSourceQueues(QueueParameters, kw_only=True):
    NextToken: str | None = None
    MaxResults: Integer | None = None


class ListMessageMoveTasks(Parameters, kw_only=True):
    SourceArn: str
    MaxResults: Integer | None = None


class ListQueueTags(QueueParameters): ...


class ListQueues(Parameters, kw_only=True):
    QueueNamePrefix: str | None = None
    NextToken: str | None = None
    MaxResults: Integer | None = None


class PurgeQueue(QueueParameters): ...


class ReceiveMessage(QueueParameters, kw_only=True):
    AttributeNames: AttributeNameList | None = None
    MessageSystemAttributeNames: (
        Annotated[list[str], elements("MessageSystemAttributeName")] | None
    ) = None
    MessageAttributeNames: Annotated[list[str], elements("MessageAttributeName")] | None = None
    MaxNumberOfMessages: Integer | None = None
    VisibilityTimeout: Integer | None = None
    WaitTimeSeconds: Integer | None = None
    ReceiveRequestAttemptId: str | None = None


class RemovePermission(QueueParameters, kw_only=True):
    Label: str


class SendMessage(QueueParameters, kw_only=True):
    MessageBody: str
    DelaySeconds: Integer | None = None
    MessageAttributes: MessageAttributeMap | None = None
    MessageSystemAttributes: MessageSystemAttributeMap | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class SendMessageBatchRequestEntry(Parameters, kw_only=True):
    Id: str
    MessageBody: str
    DelaySeconds: Integer | None = None
    MessageAttributes: MessageAttributeMap | None = None
    MessageSystemAttributes: MessageSystemAttributeMap | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class SendMessageBatch(QueueParameters, kw_only=True):
    Entries: EntryList[SendMessageBatchRequestEntry]


class SetQueueAttributes(QueueParameters, kw_only=True):
    Attributes: AttributeMap


class StartMessageMoveTask(Parameters, kw_only=True):
    SourceArn: str
    DestinationArn: str | None = None
    MaxNumberOfMessagesPerSecond: Integer | None = None


class TagQueue(QueueParameters, kw_only=True):
    Tags: TagMap


class UntagQueue(QueueParameters, kw_only=True):
    TagKeys: Annotated[list[str], elements("TagKey")]
