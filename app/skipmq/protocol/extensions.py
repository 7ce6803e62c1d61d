"""What the actions beyond SQS take and give, on the JSON wire as `SkipMQ.` and their names."""

from collections.abc import Mapping
from typing import Annotated

from skipmq.protocol.requests import Integer, Long, Parameters, QueueParameters, elements
from skipmq.protocol.shapes import (
    ATTRIBUTES,
    BOOLEAN,
    INTEGER,
    LONG,
    MESSAGE_ATTRIBUTES,
    STRING,
    TEXT,
    Action,
    List,
    structure,
)


class CopyMessages(QueueParameters, kw_only=True):
    DestinationQueueUrl: str
    MessageReferences: Annotated[list[str], elements("MessageReference")]


class DeletePickedMessages(QueueParameters, kw_only=True):
    MessageReferences: Annotated[list[str], elements("MessageReference")]


class DescribeDatabase(Parameters): ...


class GetMessageTimeline(QueueParameters, kw_only=True):
    MessageId: str
    MessageReference: str | None = None
    NextToken: str | None = None


class GetQueueActivity(QueueParameters, kw_only=True):
    Minutes: Integer | None = None
    StepMinutes: Integer | None = None


class ListAuditRecords(Parameters, kw_only=True):
    Queue: str | None = None
    AccessKeyId: str | None = None
    Action: str | None = None
    Outcome: str | None = None
    MaxResults: Integer | None = None
    NextToken: str | None = None


class ListDeadLetterQueues(Parameters, kw_only=True):
    Search: str | None = None
    Offset: Integer | None = None
    MaxResults: Integer | None = None


class ListMessageTasks(QueueParameters, kw_only=True):
    MaxResults: Integer | None = None


class ListQueueStatistics(Parameters, kw_only=True):
    Search: str | None = None
    Order: str | None = None
    Descending: bool | None = None
    Offset: Integer | None = None
    MaxResults: Integer | None = None
    Minutes: Integer | None = None


class MoveMessages(QueueParameters, kw_only=True):
    DestinationQueueUrl: str
    MessageReferences: Annotated[list[str], elements("MessageReference")]


class PeekMessages(QueueParameters, kw_only=True):
    State: str | None = None
    MaxResults: Integer | None = None
    NextToken: str | None = None


class PeekNewestMessages(QueueParameters, kw_only=True):
    Since: Long | None = None
    MaxResults: Integer | None = None


class StartMessageTask(QueueParameters, kw_only=True):
    Kind: str
    DestinationQueueUrl: str | None = None
    BodyContains: str | None = None
    AttributeName: str | None = None
    AttributeValue: str | None = None
    MaxNumberOfMessagesPerSecond: Integer | None = None


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
DEAD_LETTER_QUEUE = structure(
    QueueName=TEXT,
    Exists=BOOLEAN,
    FifoQueue=BOOLEAN,
    DeadLetterQueue=STRING,
    Messages=LONG,
    OldestSeconds=LONG,
    Arrived=LONG,
    SourceCount=LONG,
    Sources=List(
        structure(QueueName=TEXT, MaxReceiveCount=INTEGER, Messages=LONG, DeadLettered=LONG),
        "Source",
    ),
)
AUDIT_RECORD = structure(
    Id=LONG,
    RecordedTimestamp=LONG,
    Account=STRING,
    AccessKeyId=STRING,
    Claimed=BOOLEAN,
    User=STRING,
    Action=STRING,
    QueueArn=STRING,
    ClientAddress=STRING,
    Door=TEXT,
    RequestId=TEXT,
    Outcome=TEXT,
    Parameters=STRING,
)
DATABASE = structure(
    State=TEXT,
    StateSeconds=LONG,
    Reason=STRING,
    KnownSeconds=LONG,
    Server=structure(
        Host=STRING,
        Port=INTEGER,
        Version=STRING,
        SchemaRevision=STRING,
        StartedTimestamp=LONG,
        Seconds=LONG,
        Timeline=LONG,
        OldestSnapshotSeconds=LONG,
    ),
    Replication=structure(
        Summary=STRING,
        Names=STRING,
        Required=INTEGER,
        StandbyCount=INTEGER,
        Remedy=STRING,
    ),
    Standbys=List(
        structure(
            Name=STRING,
            Address=STRING,
            State=STRING,
            Sync=STRING,
            LagBytes=LONG,
            LagMilliseconds=LONG,
        ),
        "Standby",
    ),
    Numbers=List(structure(Name=TEXT, Label=STRING, Value=LONG), "Number"),
    Node=structure(
        Release=STRING,
        Process=STRING,
        Workers=INTEGER,
        Seconds=LONG,
        AvailableSeconds=LONG,
        DatabaseAddress=STRING,
        Outages=LONG,
        LastOutageSeconds=LONG,
        LastOutageEndedSeconds=LONG,
    ),
    Programs=List(
        structure(Program=STRING, Address=STRING, Sessions=INTEGER, Seconds=LONG), "Program"
    ),
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
_EVENT = structure(
    Event=TEXT,
    At=LONG,
    QueueName=STRING,
    DestinationQueueName=STRING,
    Receives=LONG,
    Program=STRING,
)
_TASK = structure(
    Kind=TEXT,
    TaskHandle=STRING,
    Status=TEXT,
    SourceArn=TEXT,
    DestinationArn=STRING,
    MaxNumberOfMessagesPerSecond=INTEGER,
    ApproximateNumberOfMessagesMoved=LONG,
    ApproximateNumberOfMessagesToMove=LONG,
    ApproximateNumberOfMessagesPassed=LONG,
    BodyContains=STRING,
    AttributeName=STRING,
    AttributeValue=STRING,
    FailureReason=STRING,
    StartedTimestamp=LONG,
)
ACTIONS: Mapping[str, Action] = {
    "CopyMessages": Action(CopyMessages, _OUTCOMES),
    "DeletePickedMessages": Action(DeletePickedMessages, _OUTCOMES),
    "DescribeDatabase": Action(DescribeDatabase, DATABASE),
    "GetMessageTimeline": Action(
        GetMessageTimeline,
        structure(
            State=TEXT,
            Clock=LONG,
            Events=List(_EVENT, "Event"),
            QueueSearched=BOOLEAN,
            HistorySearchedFrom=LONG,
            NextToken=STRING,
        ),
    ),
    "GetQueueActivity": Action(
        GetQueueActivity,
        structure(
            Clock=LONG,
            Minutes=_MINUTES,
            HistoryMode=TEXT,
            Unread=STRING,
            Sampled=BOOLEAN,
            TimeInQueue=_TIME_IN_QUEUE,
            Steps=List(_TIME_IN_QUEUE, "Step"),
        ),
    ),
    "ListAuditRecords": Action(
        ListAuditRecords, structure(Records=List(AUDIT_RECORD, "Record"), NextToken=STRING)
    ),
    "ListDeadLetterQueues": Action(
        ListDeadLetterQueues,
        structure(
            DeadLetterQueues=List(DEAD_LETTER_QUEUE, "Queue"),
            Matches=LONG,
            Redelivering=List(
                structure(QueueName=TEXT, Messages=LONG, Received=LONG, Deleted=LONG), "Queue"
            ),
        ),
    ),
    "ListMessageTasks": Action(ListMessageTasks, structure(Tasks=List(_TASK, "Task"))),
    "ListQueueStatistics": Action(
        ListQueueStatistics,
        structure(Clock=LONG, Queues=List(QUEUE_STATISTICS, "Queue"), Matches=LONG),
    ),
    "MoveMessages": Action(MoveMessages, _OUTCOMES),
    "PeekMessages": Action(
        PeekMessages, structure(Messages=List(PEEKED_MESSAGE, "Message"), NextToken=STRING)
    ),
    "PeekNewestMessages": Action(
        PeekNewestMessages, structure(Clock=LONG, Messages=List(_NEW_MESSAGE, "Message"))
    ),
    "StartMessageTask": Action(StartMessageTask, structure(TaskHandle=TEXT)),
}
