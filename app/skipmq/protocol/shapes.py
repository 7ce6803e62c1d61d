"""What the 23 SQS actions take and give: one table for both wires.

The shape of a request is derived from its class; those of answers stand here.
Source: botocore's SQS service model; a test compares this table with it member by member.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from msgspec import Struct, inspect, structs

from skipmq.model import AttributeValue
from skipmq.protocol import requests


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
    """Named members, in the order in which they are written; `struct` is the class of a request."""

    members: Mapping[str, "Shape"]
    required: frozenset[str]
    struct: type[Struct] = field(default=Struct, compare=False)


@dataclass(frozen=True, slots=True)
class Action:
    """What an action takes and gives; some give nothing."""

    request: type[requests.Parameters]
    gives: Structure | None = None

    @property
    def takes(self) -> Structure:
        """Return the shape of a request."""
        return derived(self.request)


@dataclass(frozen=True, slots=True)
class Required:
    """The mark of a member that must be there."""

    shape: "Shape"


Shape: TypeAlias = Scalar | List | Map | Structure


def location(name: str, shape: Shape) -> str:
    """Return the Query wire's name of the member `name`."""
    return shape.location if isinstance(shape, List | Map) else name


def structure(**members: Shape | Required) -> Structure:
    """Return the structure of these members."""
    plain = {
        name: member.shape if isinstance(member, Required) else member
        for name, member in members.items()
    }
    required = frozenset(name for name, member in members.items() if isinstance(member, Required))
    return Structure(plain, required)


def derived(struct: type[Struct]) -> Structure:
    """Return the structure that a class declares."""
    fields = structs.fields(struct)
    members = {each.name: _shape(inspect.type_info(each.type)) for each in fields}
    required = {each.name for each in fields if each.required}
    if issubclass(struct, requests.QueueParameters):
        required.add("QueueUrl")
    return Structure(members, frozenset(required), struct)


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


def _shape(kind: inspect.Type, **locations: str) -> Shape:  # noqa: PLR0911 - one for each kind.
    """Return the shape of a type, or of what is optional."""
    match kind:
        case inspect.UnionType((inner, _)):
            return _shape(inner)
        case inspect.Metadata(inner, extra=extra):
            return _shape(inner, **(extra or {}))
        case inspect.ListType(element):
            return List(_shape(element), **locations)
        case inspect.DictType(value_type=value):
            return Map(_shape(value), **locations)
        case inspect.StructType(struct):
            return derived(struct)
        case inspect.IntType(le=most):
            return INTEGER if most == (1 << 31) - 1 else LONG
    return _SCALARS[type(kind)]


STRING, INTEGER, LONG = Scalar("string"), Scalar("integer"), Scalar("long")
BOOLEAN, BLOB = Scalar("boolean"), Scalar("blob")
_SCALARS = {inspect.StrType: STRING, inspect.BoolType: BOOLEAN, inspect.BytesType: BLOB}
TEXT = Required(STRING)

ATTRIBUTES = Map(STRING, "Attribute")
TAGS = Map(STRING, "Tag", "Key", "Value")
QUEUE_URLS = List(STRING, "QueueUrl")

ATTRIBUTE_VALUE = derived(AttributeValue)
MESSAGE_ATTRIBUTES = Map(ATTRIBUTE_VALUE, "MessageAttribute")
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


def batch(result: Structure, location: str) -> Structure:
    """Return what a batch action gives: the results of those entries that succeeded."""
    return structure(
        Successful=Required(List(result, location)),
        Failed=Required(List(FAILED_ENTRY, "BatchResultErrorEntry")),
    )


ACTIONS: Mapping[str, Action] = {
    "AddPermission": Action(requests.AddPermission),
    "CancelMessageMoveTask": Action(
        requests.CancelMessageMoveTask, structure(ApproximateNumberOfMessagesMoved=LONG)
    ),
    "ChangeMessageVisibility": Action(requests.ChangeMessageVisibility),
    "ChangeMessageVisibilityBatch": Action(
        requests.ChangeMessageVisibilityBatch,
        batch(structure(Id=TEXT), "ChangeMessageVisibilityBatchResultEntry"),
    ),
    "CreateQueue": Action(requests.CreateQueue, structure(QueueUrl=STRING)),
    "DeleteMessage": Action(requests.DeleteMessage),
    "DeleteMessageBatch": Action(
        requests.DeleteMessageBatch, batch(structure(Id=TEXT), "DeleteMessageBatchResultEntry")
    ),
    "DeleteQueue": Action(requests.DeleteQueue),
    "GetQueueAttributes": Action(requests.GetQueueAttributes, structure(Attributes=ATTRIBUTES)),
    "GetQueueUrl": Action(requests.GetQueueUrl, structure(QueueUrl=STRING)),
    "ListDeadLetterSourceQueues": Action(
        requests.ListDeadLetterSourceQueues,
        structure(queueUrls=Required(QUEUE_URLS), NextToken=STRING),
    ),
    "ListMessageMoveTasks": Action(
        requests.ListMessageMoveTasks,
        structure(Results=List(MOVE_TASK, "ListMessageMoveTasksResultEntry")),
    ),
    "ListQueueTags": Action(requests.ListQueueTags, structure(Tags=TAGS)),
    "ListQueues": Action(requests.ListQueues, structure(QueueUrls=QUEUE_URLS, NextToken=STRING)),
    "PurgeQueue": Action(requests.PurgeQueue),
    "ReceiveMessage": Action(
        requests.ReceiveMessage, structure(Messages=List(RECEIVED_MESSAGE, "Message"))
    ),
    "RemovePermission": Action(requests.RemovePermission),
    "SendMessage": Action(
        requests.SendMessage,
        structure(
            MD5OfMessageBody=STRING,
            MD5OfMessageAttributes=STRING,
            MD5OfMessageSystemAttributes=STRING,
            MessageId=STRING,
            SequenceNumber=STRING,
        ),
    ),
    "SendMessageBatch": Action(
        requests.SendMessageBatch,
        batch(
            structure(
                Id=TEXT,
                MessageId=TEXT,
                MD5OfMessageBody=TEXT,
                MD5OfMessageAttributes=STRING,
                MD5OfMessageSystemAttributes=STRING,
                SequenceNumber=STRING,
            ),
            "SendMessageBatchResultEntry",
        ),
    ),
    "SetQueueAttributes": Action(requests.SetQueueAttributes),
    "StartMessageMoveTask": Action(requests.StartMessageMoveTask, structure(TaskHandle=STRING)),
    "TagQueue": Action(requests.TagQueue),
    "UntagQueue": Action(requests.UntagQueue),
}
