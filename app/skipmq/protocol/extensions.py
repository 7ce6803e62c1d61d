"""The parameters of SkipMQ's own actions, whose targets in the JSON protocol are `SkipMQ.NAME`.

The rows of their results are records of `broker`.
"""

from typing import Annotated

from skipmq.protocol.requests import (
    Integer,
    Long,
    MessageAttributeMap,
    Parameters,
    QueueParameters,
    elements,
)


class FilterParameters(QueueParameters, kw_only=True):
    """The filter of a search, or of a task; times in milliseconds since 1970."""

    BodyContains: str | None = None
    BodyPath: str | None = None
    AttributeName: str | None = None
    AttributeValue: str | None = None
    MinimumReceiveCount: Integer | None = None
    SentBefore: Long | None = None
    FailureKind: str | None = None


class CopyMessages(QueueParameters, kw_only=True):
    DestinationQueueUrl: str
    MessageReferences: Annotated[list[str], elements("MessageReference")]


class CreateSchedule(QueueParameters, kw_only=True):
    Name: str
    Expression: str
    MessageBody: str
    Zone: str = "UTC"
    MessageAttributes: MessageAttributeMap | None = None
    MessageGroupId: str | None = None
    JitterSeconds: Integer = 0
    CatchUp: str = "latest"
    EndTimestamp: Long | None = None
    MaximumFailures: Integer = 10


class DeadLetterMessage(QueueParameters, kw_only=True):
    ReceiptHandle: str
    FailureReason: str | None = None


class DeletePickedMessages(QueueParameters, kw_only=True):
    MessageReferences: Annotated[list[str], elements("MessageReference")]


class DeleteSchedule(Parameters, kw_only=True):
    Name: str


class DescribeDatabase(Parameters): ...


class DescribeSchedule(Parameters, kw_only=True):
    Name: str


class EndSession(Parameters, kw_only=True):
    ProcessId: Integer
    Kind: str
    StartedMicroseconds: Long | None = None
    Partition: Integer | None = None


class FailMessage(QueueParameters, kw_only=True):
    ReceiptHandle: str
    FailureReason: str
    VisibilityTimeout: Integer | None = None


class GetAccessKeyRights(Parameters, kw_only=True):
    AccessKeyId: str
    Search: str | None = None
    Offset: Integer | None = None
    MaxResults: Integer | None = None


class GetMessageTimeline(QueueParameters, kw_only=True):
    MessageId: str
    MessageReference: str | None = None
    NextToken: str | None = None


class GetOverview(Parameters, kw_only=True):
    QueueName: str | None = None
    MaxResults: Integer | None = None
    Minutes: Integer | None = None
    Everywhere: bool = False
    Folded: bool = False


class GetQueueActivity(QueueParameters, kw_only=True):
    Minutes: Integer | None = None
    StepMinutes: Integer | None = None
    Times: bool | None = None


class ListAccessKeys(Parameters): ...


class ListAuditRecords(Parameters, kw_only=True):
    Queue: str | None = None
    AccessKeyId: str | None = None
    Action: str | None = None
    Outcome: str | None = None
    By: str | None = None
    ChangesOnly: bool | None = None
    SinceTimestamp: Long | None = None
    UntilTimestamp: Long | None = None
    MaxResults: Integer | None = None
    NextToken: str | None = None


class ListConsumers(QueueParameters, kw_only=True): ...


class ListDeadLetterQueues(Parameters, kw_only=True):
    Search: str | None = None
    Offset: Integer | None = None
    MaxResults: Integer | None = None


class ListMessageFailures(QueueParameters): ...


class ListMessageGroups(QueueParameters, kw_only=True):
    MessageGroupId: str | None = None
    MaxResults: Integer | None = None
    NextToken: str | None = None


class ListMessageTasks(QueueParameters, kw_only=True):
    MaxResults: Integer | None = None


class ListNodes(Parameters): ...


class ListPausedMessageGroups(QueueParameters, kw_only=True):
    MessageGroupId: str | None = None
    MaxResults: Integer | None = None
    NextToken: str | None = None


class ListQueueStatistics(Parameters, kw_only=True):
    Search: str | None = None
    Order: str | None = None
    Descending: bool | None = None
    Filter: str | None = None
    Tag: str | None = None
    Offset: Integer | None = None
    MaxResults: Integer | None = None
    Minutes: Integer | None = None


class ListSchedules(Parameters, kw_only=True):
    MaxResults: Integer | None = None
    NextToken: str | None = None


class ListSessions(Parameters, kw_only=True):
    Partition: Integer | None = None


class ListTasks(Parameters, kw_only=True):
    MaxResults: Integer | None = None


class MoveMessages(QueueParameters, kw_only=True):
    DestinationQueueUrl: str
    MessageReferences: Annotated[list[str], elements("MessageReference")]


class PauseMessageGroup(QueueParameters, kw_only=True):
    MessageGroupId: str
    PausedUntil: Long | None = None


class PauseQueue(QueueParameters, kw_only=True):
    Paused: bool | None = None


class PauseSchedule(Parameters, kw_only=True):
    Name: str
    Paused: bool | None = None


class PeekMessages(QueueParameters, kw_only=True):
    State: str | None = None
    Order: str | None = None
    MessageReferences: Annotated[list[str], elements("MessageReference")] | None = None
    MaxResults: Integer | None = None
    NextToken: str | None = None


class PeekNewestMessages(QueueParameters, kw_only=True):
    Since: Long | None = None
    MaxResults: Integer | None = None


class ReleaseMessages(QueueParameters, kw_only=True):
    MessageReferences: Annotated[list[str], elements("MessageReference")] | None = None
    MessageGroupIds: Annotated[list[str], elements("MessageGroupId")] | None = None
    VisibleInSeconds: Integer | None = None


class ResumeMessageGroup(QueueParameters, kw_only=True):
    MessageGroupId: str


class RunSchedule(Parameters, kw_only=True):
    Name: str


class SearchMessages(FilterParameters, kw_only=True):
    MaxResults: Integer | None = None
    NextToken: str | None = None


class StartMessageTask(FilterParameters, kw_only=True):
    Kind: str
    DestinationQueueUrl: str | None = None
    VisibleBefore: Long | None = None
    MaxNumberOfMessagesPerSecond: Integer | None = None


REQUESTS: dict[str, type[Parameters]] = {
    name: each
    for name, each in dict(globals()).items()
    if isinstance(each, type) and each.__module__ == __name__ and each is not FilterParameters
}
