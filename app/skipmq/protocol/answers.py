"""The results of SQS actions: a class for each that has one, its members in the order of the JSON.

Members without a value are omitted, and so are required lists that have a default, when empty.
Annotations and source are as in `requests`.
"""

from typing import Annotated, ClassVar, TypeAlias

from msgspec import Struct

from skipmq.protocol.requests import (
    AttributeMap,
    Integer,
    Long,
    MessageAttributeMap,
    TagMap,
    elements,
)

QueueUrlList: TypeAlias = Annotated[list[str], elements("QueueUrl")]


class Answer(Struct, kw_only=True, omit_defaults=True, gc=False):
    """A result, or a structure within one."""

    # The last members of the XML, if it has them in another order.
    xml_order: ClassVar[tuple[str, ...]] = ()


class CancelMessageMoveTaskResult(Answer, kw_only=True):
    ApproximateNumberOfMessagesMoved: Long | None = None


class ChangeMessageVisibilityBatchResultEntry(Answer):
    Id: str


class BatchResultErrorEntry(Answer, kw_only=True):
    Id: str
    SenderFault: bool
    Code: str
    Message: str | None = None


class ChangeMessageVisibilityBatchResult(Answer, kw_only=True):
    Successful: list[ChangeMessageVisibilityBatchResultEntry] = []
    Failed: list[BatchResultErrorEntry] = []


class CreateQueueResult(Answer, kw_only=True):
    QueueUrl: str | None = None


class DeleteMessageBatchResultEntry(Answer):
    Id: str


class DeleteMessageBatchResult(Answer, kw_only=True):
    Successful: list[DeleteMessageBatchResultEntry] = []
    Failed: list[BatchResultErrorEntry] = []


class GetQueueAttributesResult(Answer, kw_only=True):
    Attributes: AttributeMap | None = None


class GetQueueUrlResult(Answer, kw_only=True):
    QueueUrl: str | None = None


class ListDeadLetterSourceQueuesResult(Answer, kw_only=True):
    queueUrls: QueueUrlList  # noqa: N815 - its name.
    NextToken: str | None = None


class ListMessageMoveTasksResultEntry(Answer, kw_only=True):
    TaskHandle: str | None = None
    Status: str | None = None
    SourceArn: str | None = None
    DestinationArn: str | None = None
    MaxNumberOfMessagesPerSecond: Integer | None = None
    ApproximateNumberOfMessagesMoved: Long | None = None
    ApproximateNumberOfMessagesToMove: Long | None = None
    FailureReason: str | None = None
    StartedTimestamp: Long | None = None


class ListMessageMoveTasksResult(Answer, kw_only=True):
    Results: list[ListMessageMoveTasksResultEntry] | None = None


class ListQueueTagsResult(Answer, kw_only=True):
    Tags: TagMap | None = None


class ListQueuesResult(Answer, kw_only=True):
    QueueUrls: QueueUrlList | None = None
    NextToken: str | None = None


class Message(Answer, kw_only=True):
    xml_order = ("MD5OfMessageAttributes", "MessageAttributes")

    MessageId: str | None = None
    ReceiptHandle: str | None = None
    MD5OfBody: str | None = None
    Body: str | None = None
    Attributes: AttributeMap | None = None
    MessageAttributes: MessageAttributeMap | None = None
    MD5OfMessageAttributes: str | None = None


class ReceiveMessageResult(Answer, kw_only=True):
    Messages: list[Message] | None = None


class SendMessageResult(Answer, kw_only=True):
    xml_order = (
        "MD5OfMessageBody",
        "MD5OfMessageAttributes",
        "MD5OfMessageSystemAttributes",
        "MessageId",
        "SequenceNumber",
    )

    MessageId: str | None = None
    MD5OfMessageBody: str | None = None
    MD5OfMessageAttributes: str | None = None
    MD5OfMessageSystemAttributes: str | None = None
    SequenceNumber: str | None = None


class SendMessageBatchResultEntry(Answer, kw_only=True):
    Id: str
    MessageId: str
    MD5OfMessageBody: str
    MD5OfMessageAttributes: str | None = None
    MD5OfMessageSystemAttributes: str | None = None
    SequenceNumber: str | None = None


class SendMessageBatchResult(Answer, kw_only=True):
    Successful: list[SendMessageBatchResultEntry] = []
    Failed: list[BatchResultErrorEntry] = []


class StartMessageMoveTaskResult(Answer, kw_only=True):
    TaskHandle: str | None = None
