"""What the 23 SQS actions, and ours beside them, take and give: one table for both wires.

A member's keyword is its name on the JSON wire. The Query wire flattens lists and maps; there a
list is known by the name of its elements, a map by that of its entries: their shapes say that name.
Source: botocore's SQS service model; a test holds this table against it member by member.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, TypeAlias

import msgspec
from msgspec import Meta

from skipmq.model import AttributeValue

# As many as a form can have fields; what is asked of each message has its price for each of them.
ELEMENTS_MOST = 2_000


@dataclass(frozen=True, slots=True)
class Scalar:
    """A single value."""

    kind: Literal["string", "integer", "long", "boolean", "blob"]


@dataclass(frozen=True, slots=True)
class List:
    """Values in order; `location` is the Query wire's name of one of them."""

    element: "Shape"
    location: str


@dataclass(frozen=True, slots=True)
class Map:
    """Values by a text; the locations are the Query wire's names of an entry and of its halves."""

    value: "Shape"
    location: str
    key_location: str = "Name"
    value_location: str = "Value"


@dataclass(frozen=True, slots=True)
class Structure:
    """Named members, in the order in which they are written; `struct` holds values of them."""

    members: Mapping[str, "Shape"]
    required: frozenset[str]
    struct: type[msgspec.Struct] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Action:
    """What an action takes and gives; some give nothing."""

    takes: Structure
    gives: Structure | None = None


@dataclass(frozen=True, slots=True)
class Required:
    """The mark of a member that must be there."""

    shape: "Shape"


Shape: TypeAlias = Scalar | List | Map | Structure


def location(name: str, shape: Shape) -> str:
    """Return the Query wire's name of the member `name`."""
    return shape.location if isinstance(shape, List | Map) else name


def structure(
    struct: type[msgspec.Struct] | None = None, /, **members: Shape | Required
) -> Structure:
    """Return the structure of these members; its values are of `struct`, or of one made for it."""
    plain = {
        name: member.shape if isinstance(member, Required) else member
        for name, member in members.items()
    }
    required = frozenset(name for name, member in members.items() if isinstance(member, Required))
    return Structure(plain, required, struct or _struct(plain, required))


def required_members(shape: Shape) -> Iterator[str]:
    """Give the names of the members that must be there, of a shape and all within it."""
    match shape:
        case Structure():
            yield from shape.required
            for member in shape.members.values():
                yield from required_members(member)
        case List():
            yield from required_members(shape.element)
        case Map():
            yield from required_members(shape.value)


def _struct(members: Mapping[str, Shape], required: frozenset[str]) -> type[msgspec.Struct]:
    """Return a type with a field for each member; a member that is not there is None.

    The queue's URL may stand in the path of a request, so that its codec looks whether it is there.
    """
    fields: list[tuple[str, Any] | tuple[str, Any, Any]] = [
        (name, _annotation(shape))
        if name in required - {"QueueUrl"}
        else (name, _annotation(shape) | None, None)
        for name, shape in members.items()
    ]
    return msgspec.defstruct("Parameters", fields, kw_only=True, omit_defaults=True, gc=False)


def _annotation(shape: Shape) -> Any:
    match shape:
        case Scalar(kind):
            return _ANNOTATIONS[kind]
        case List(element):
            return Annotated[list[_annotation(element)], Meta(max_length=ELEMENTS_MOST)]  # type: ignore[misc]
        case Map(value):
            return dict[str, _annotation(value)]  # type: ignore[misc]
        case Structure():
            return shape.struct


def _bits(count: int) -> Any:
    most = 1 << (count - 1)
    return Annotated[int, Meta(ge=-most, le=most - 1)]


_ANNOTATIONS: dict[str, Any] = {
    "string": str,
    "integer": _bits(32),
    "long": _bits(64),
    "boolean": bool,
    "blob": bytes,
}


STRING, INTEGER, LONG = Scalar("string"), Scalar("integer"), Scalar("long")
BOOLEAN, BLOB = Scalar("boolean"), Scalar("blob")
TEXT = Required(STRING)

ATTRIBUTES = Map(STRING, "Attribute")
ATTRIBUTE_NAMES = List(STRING, "AttributeName")
TAGS = Map(STRING, "Tag", "Key", "Value")
QUEUE_URLS = List(STRING, "QueueUrl")

ATTRIBUTE_VALUE = structure(
    AttributeValue,
    StringValue=STRING,
    BinaryValue=BLOB,
    StringListValues=List(STRING, "StringListValue"),
    BinaryListValues=List(BLOB, "BinaryListValue"),
    DataType=TEXT,
)
MESSAGE_ATTRIBUTES = Map(ATTRIBUTE_VALUE, "MessageAttribute")
MESSAGE: dict[str, Shape | Required] = {
    "MessageBody": TEXT,
    "DelaySeconds": INTEGER,
    "MessageAttributes": MESSAGE_ATTRIBUTES,
    "MessageSystemAttributes": Map(ATTRIBUTE_VALUE, "MessageSystemAttribute"),
    "MessageDeduplicationId": STRING,
    "MessageGroupId": STRING,
}
RECEIVED_MESSAGE = structure(
    MessageId=STRING,
    ReceiptHandle=STRING,
    MD5OfBody=STRING,
    Body=STRING,
    Attributes=ATTRIBUTES,
    MD5OfMessageAttributes=STRING,
    MessageAttributes=MESSAGE_ATTRIBUTES,
)
MOVE_TASK = structure(
    TaskHandle=STRING,
    Status=STRING,
    SourceArn=STRING,
    DestinationArn=STRING,
    MaxNumberOfMessagesPerSecond=INTEGER,
    ApproximateNumberOfMessagesMoved=LONG,
    ApproximateNumberOfMessagesToMove=LONG,
    FailureReason=STRING,
    StartedTimestamp=LONG,
)
FAILED_ENTRY = structure(Id=TEXT, SenderFault=Required(BOOLEAN), Code=TEXT, Message=STRING)


def batch(action: str, *, entry: Structure, result: Structure) -> Action:
    """Return the batch action of these entries: what it takes and gives differs in nothing else."""
    return Action(
        takes=structure(QueueUrl=TEXT, Entries=Required(List(entry, f"{action}RequestEntry"))),
        gives=structure(
            Successful=Required(List(result, f"{action}ResultEntry")),
            Failed=Required(List(FAILED_ENTRY, "BatchResultErrorEntry")),
        ),
    )


ACTIONS: Mapping[str, Action] = {
    "AddPermission": Action(
        structure(
            QueueUrl=TEXT,
            Label=TEXT,
            AWSAccountIds=Required(List(STRING, "AWSAccountId")),
            Actions=Required(List(STRING, "ActionName")),
        ),
    ),
    "CancelMessageMoveTask": Action(
        structure(TaskHandle=TEXT),
        structure(ApproximateNumberOfMessagesMoved=LONG),
    ),
    "ChangeMessageVisibility": Action(
        structure(QueueUrl=TEXT, ReceiptHandle=TEXT, VisibilityTimeout=Required(INTEGER)),
    ),
    "ChangeMessageVisibilityBatch": batch(
        "ChangeMessageVisibilityBatch",
        entry=structure(Id=TEXT, ReceiptHandle=TEXT, VisibilityTimeout=INTEGER),
        result=structure(Id=TEXT),
    ),
    "CreateQueue": Action(
        structure(QueueName=TEXT, Attributes=ATTRIBUTES, tags=TAGS),
        structure(QueueUrl=STRING),
    ),
    "DeleteMessage": Action(structure(QueueUrl=TEXT, ReceiptHandle=TEXT)),
    "DeleteMessageBatch": batch(
        "DeleteMessageBatch",
        entry=structure(Id=TEXT, ReceiptHandle=TEXT),
        result=structure(Id=TEXT),
    ),
    "DeleteQueue": Action(structure(QueueUrl=TEXT)),
    "GetQueueAttributes": Action(
        structure(QueueUrl=TEXT, AttributeNames=ATTRIBUTE_NAMES),
        structure(Attributes=ATTRIBUTES),
    ),
    "GetQueueUrl": Action(
        structure(QueueName=TEXT, QueueOwnerAWSAccountId=STRING),
        structure(QueueUrl=STRING),
    ),
    "ListDeadLetterSourceQueues": Action(
        structure(QueueUrl=TEXT, NextToken=STRING, MaxResults=INTEGER),
        structure(queueUrls=Required(QUEUE_URLS), NextToken=STRING),
    ),
    "ListMessageMoveTasks": Action(
        structure(SourceArn=TEXT, MaxResults=INTEGER),
        structure(Results=List(MOVE_TASK, "ListMessageMoveTasksResultEntry")),
    ),
    "ListQueueTags": Action(structure(QueueUrl=TEXT), structure(Tags=TAGS)),
    "ListQueues": Action(
        structure(QueueNamePrefix=STRING, NextToken=STRING, MaxResults=INTEGER),
        structure(QueueUrls=QUEUE_URLS, NextToken=STRING),
    ),
    "PurgeQueue": Action(structure(QueueUrl=TEXT)),
    "ReceiveMessage": Action(
        structure(
            QueueUrl=TEXT,
            AttributeNames=ATTRIBUTE_NAMES,
            MessageSystemAttributeNames=List(STRING, "MessageSystemAttributeName"),
            MessageAttributeNames=List(STRING, "MessageAttributeName"),
            MaxNumberOfMessages=INTEGER,
            VisibilityTimeout=INTEGER,
            WaitTimeSeconds=INTEGER,
            ReceiveRequestAttemptId=STRING,
        ),
        structure(Messages=List(RECEIVED_MESSAGE, "Message")),
    ),
    "RemovePermission": Action(structure(QueueUrl=TEXT, Label=TEXT)),
    "SendMessage": Action(
        structure(QueueUrl=TEXT, **MESSAGE),
        structure(
            MD5OfMessageBody=STRING,
            MD5OfMessageAttributes=STRING,
            MD5OfMessageSystemAttributes=STRING,
            MessageId=STRING,
            SequenceNumber=STRING,
        ),
    ),
    "SendMessageBatch": batch(
        "SendMessageBatch",
        entry=structure(Id=TEXT, **MESSAGE),
        result=structure(
            Id=TEXT,
            MessageId=TEXT,
            MD5OfMessageBody=TEXT,
            MD5OfMessageAttributes=STRING,
            MD5OfMessageSystemAttributes=STRING,
            SequenceNumber=STRING,
        ),
    ),
    "SetQueueAttributes": Action(structure(QueueUrl=TEXT, Attributes=Required(ATTRIBUTES))),
    "StartMessageMoveTask": Action(
        structure(SourceArn=TEXT, DestinationArn=STRING, MaxNumberOfMessagesPerSecond=INTEGER),
        structure(TaskHandle=STRING),
    ),
    "TagQueue": Action(structure(QueueUrl=TEXT, Tags=Required(TAGS))),
    "UntagQueue": Action(structure(QueueUrl=TEXT, TagKeys=Required(List(STRING, "TagKey")))),
}

# Beyond SQS, on the JSON wire alone: X-Amz-Target `SkipMQ.` and the name.
PEEKED_MESSAGE = structure(
    MessageReference=TEXT,
    MessageId=TEXT,
    State=TEXT,
    VisibleInSeconds=INTEGER,
    MD5OfBody=STRING,
    Body=STRING,
    Attributes=ATTRIBUTES,
    MessageAttributes=MESSAGE_ATTRIBUTES,
)
_PICKED = structure(
    QueueUrl=TEXT,
    DestinationQueueUrl=TEXT,
    MessageReferences=Required(List(STRING, "MessageReference")),
)
_OUTCOMES = structure(
    Results=List(structure(MessageReference=TEXT, Outcome=TEXT), "Result"),
)
_MINUTES = List(
    structure(
        Minute=LONG,
        Sent=LONG,
        Received=LONG,
        Deleted=LONG,
        DeadLettered=LONG,
        Messages=LONG,
    ),
    "Minute",
)
QUEUE_STATISTICS = structure(
    QueueName=TEXT,
    FifoQueue=BOOLEAN,
    DeadLetterQueue=BOOLEAN,
    Visible=LONG,
    InFlight=LONG,
    Delayed=LONG,
    OldestSeconds=LONG,
    Sent=LONG,
    Received=LONG,
    Deleted=LONG,
    Expired=LONG,
    DeadLettered=LONG,
    SentPerMinute=LONG,
    ReceivedPerMinute=LONG,
    DeletedPerMinute=LONG,
    Minutes=_MINUTES,
)
_PERCENTILES = structure(P50=LONG, P95=LONG, P99=LONG)
_TIME_IN_QUEUE = structure(
    Start=LONG,
    Settled=LONG,
    Deleted=LONG,
    SendToReceive=_PERCENTILES,
    SendToDelete=_PERCENTILES,
)
_NEW_MESSAGE = structure(
    MessageReference=TEXT,
    MessageId=TEXT,
    State=TEXT,
    CameAt=LONG,
    MessageGroupId=TEXT,
    Characters=LONG,
    Body=STRING,
)
EXTENSIONS: Mapping[str, Action] = {
    "CopyMessages": Action(_PICKED, _OUTCOMES),
    "GetQueueActivity": Action(
        structure(QueueUrl=TEXT, Minutes=INTEGER, StepMinutes=INTEGER),
        structure(
            Clock=LONG,
            Minutes=_MINUTES,
            HistoryMode=TEXT,
            Sampled=BOOLEAN,
            TimeInQueue=_TIME_IN_QUEUE,
            Steps=List(_TIME_IN_QUEUE, "Step"),
        ),
    ),
    "ListQueueStatistics": Action(
        structure(
            Search=STRING,
            Order=STRING,
            Descending=BOOLEAN,
            Offset=INTEGER,
            MaxResults=INTEGER,
            Minutes=INTEGER,
        ),
        structure(Queues=List(QUEUE_STATISTICS, "Queue"), Matches=LONG),
    ),
    "MoveMessages": Action(_PICKED, _OUTCOMES),
    "PeekMessages": Action(
        structure(QueueUrl=TEXT, State=STRING, MaxResults=INTEGER, NextToken=STRING),
        structure(Messages=List(PEEKED_MESSAGE, "Message"), NextToken=STRING),
    ),
    "PeekNewestMessages": Action(
        structure(QueueUrl=TEXT, Since=LONG, MaxResults=INTEGER),
        structure(Clock=LONG, Messages=List(_NEW_MESSAGE, "Message")),
    ),
}
