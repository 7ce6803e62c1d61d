"""The inputs and outputs of the SNS actions that topics need, for its Query protocol.

Nothing is flattened: lists are `Name.member.N`, and maps `Name.entry.N.key`.
Source: botocore's SNS service model; a test compares these classes with it member by member.
"""

from collections.abc import Mapping
from typing import Annotated, TypeAlias

from msgspec import Meta

from skipmq.protocol.answers import Answer
from skipmq.protocol.requests import Parameters
from skipmq.protocol.shapes import ActionShape, action_shape

_LIST = Meta(extra={"inner": "member"})
_ENTRIES = Meta(extra={"inner": "entry", "key_location": "key", "value_location": "value"})
_NAMED = Meta(extra={"inner": "entry", "key_location": "Name", "value_location": "Value"})


class AttributeValue(Parameters, kw_only=True):
    DataType: str = ""
    StringValue: str | None = None
    BinaryValue: bytes | None = None


class Tag(Parameters, kw_only=True):
    Key: str
    Value: str


AttributeMap: TypeAlias = Annotated[dict[str, str], _ENTRIES]
MessageAttributeMap: TypeAlias = Annotated[dict[str, AttributeValue], _NAMED]
TagList: TypeAlias = Annotated[list[Tag], _LIST]
Texts: TypeAlias = Annotated[list[str], _LIST]


class TopicParameters(Parameters, kw_only=True):
    """The parameters of an action on a topic."""

    TopicArn: str


class AddTopicPermission(TopicParameters, kw_only=True):
    Label: str
    AWSAccountId: Texts
    ActionName: Texts


class ConfirmSubscription(TopicParameters, kw_only=True):
    Token: str
    AuthenticateOnUnsubscribe: str | None = None


class CreateTopic(Parameters, kw_only=True):
    Name: str
    Attributes: AttributeMap | None = None
    Tags: TagList | None = None
    DataProtectionPolicy: str | None = None


class DeleteTopic(TopicParameters): ...


class SubscriptionParameters(Parameters, kw_only=True):
    """The parameters of an action on a subscription."""

    SubscriptionArn: str


class GetSubscriptionAttributes(SubscriptionParameters): ...


class GetTopicAttributes(TopicParameters): ...


class ListSubscriptions(Parameters, kw_only=True):
    NextToken: str | None = None


class ListSubscriptionsByTopic(TopicParameters, kw_only=True):
    NextToken: str | None = None


class ListTagsForResource(Parameters, kw_only=True):
    ResourceArn: str


class ListTopics(Parameters, kw_only=True):
    NextToken: str | None = None


class Publish(Parameters, kw_only=True):
    TopicArn: str | None = None
    TargetArn: str | None = None
    PhoneNumber: str | None = None
    Message: str
    Subject: str | None = None
    MessageStructure: str | None = None
    MessageAttributes: MessageAttributeMap | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class PublishBatchRequestEntry(Parameters, kw_only=True):
    Id: str
    Message: str
    Subject: str | None = None
    MessageStructure: str | None = None
    MessageAttributes: MessageAttributeMap | None = None
    MessageDeduplicationId: str | None = None
    MessageGroupId: str | None = None


class PublishBatch(TopicParameters, kw_only=True):
    PublishBatchRequestEntries: Annotated[list[PublishBatchRequestEntry], _LIST]


class RemoveTopicPermission(TopicParameters, kw_only=True):
    Label: str


class SetSubscriptionAttributes(SubscriptionParameters, kw_only=True):
    AttributeName: str
    AttributeValue: str | None = None


class SetTopicAttributes(TopicParameters, kw_only=True):
    AttributeName: str
    AttributeValue: str | None = None


class Subscribe(TopicParameters, kw_only=True):
    Protocol: str
    Endpoint: str | None = None
    Attributes: AttributeMap | None = None
    ReturnSubscriptionArn: bool | None = None


class TagResource(Parameters, kw_only=True):
    ResourceArn: str
    Tags: TagList


class Unsubscribe(SubscriptionParameters): ...


class UntagResource(Parameters, kw_only=True):
    ResourceArn: str
    TagKeys: Texts


class NoResult(Answer): ...


class AttributesResult(Answer, kw_only=True):
    Attributes: AttributeMap


class BatchResultEntry(Answer, kw_only=True):
    Id: str
    MessageId: str
    SequenceNumber: str | None = None


class BatchErrorEntry(Answer, kw_only=True):
    Id: str
    Code: str
    Message: str | None = None
    SenderFault: bool


class PublishBatchResult(Answer, kw_only=True):
    Successful: Annotated[list[BatchResultEntry], _LIST]
    Failed: Annotated[list[BatchErrorEntry], _LIST]


class PublishResult(Answer, kw_only=True):
    MessageId: str
    SequenceNumber: str | None = None


class Subscription(Answer, kw_only=True):
    SubscriptionArn: str
    Owner: str
    Protocol: str
    Endpoint: str
    TopicArn: str


class SubscriptionsResult(Answer, kw_only=True):
    Subscriptions: Annotated[list[Subscription], _LIST]
    NextToken: str | None = None


class SubscriptionArnResult(Answer, kw_only=True):
    SubscriptionArn: str


class TagsResult(Answer, kw_only=True):
    Tags: TagList


class Topic(Answer, kw_only=True):
    TopicArn: str


class TopicsResult(Answer, kw_only=True):
    Topics: Annotated[list[Topic], _LIST]
    NextToken: str | None = None


class TopicArnResult(Answer, kw_only=True):
    TopicArn: str


ACTIONS: Mapping[str, ActionShape] = {
    "AddTopicPermission": action_shape(AddTopicPermission),
    "ConfirmSubscription": action_shape(ConfirmSubscription, SubscriptionArnResult),
    "CreateTopic": action_shape(CreateTopic, TopicArnResult),
    "DeleteTopic": action_shape(DeleteTopic),
    "GetSubscriptionAttributes": action_shape(GetSubscriptionAttributes, AttributesResult),
    "GetTopicAttributes": action_shape(GetTopicAttributes, AttributesResult),
    "ListSubscriptions": action_shape(ListSubscriptions, SubscriptionsResult),
    "ListSubscriptionsByTopic": action_shape(ListSubscriptionsByTopic, SubscriptionsResult),
    "ListTagsForResource": action_shape(ListTagsForResource, TagsResult),
    "ListTopics": action_shape(ListTopics, TopicsResult),
    "Publish": action_shape(Publish, PublishResult),
    "PublishBatch": action_shape(PublishBatch, PublishBatchResult),
    "RemoveTopicPermission": action_shape(RemoveTopicPermission),
    "SetSubscriptionAttributes": action_shape(SetSubscriptionAttributes),
    "SetTopicAttributes": action_shape(SetTopicAttributes),
    "Subscribe": action_shape(Subscribe, SubscriptionArnResult),
    "TagResource": action_shape(TagResource, NoResult),
    "Unsubscribe": action_shape(Unsubscribe),
    "UntagResource": action_shape(UntagResource, NoResult),
}
# Two actions of SQS have the same name: here they, and their permissions, have one of their own.
ON_THE_WIRE = {
    "AddTopicPermission": "AddPermission",
    "RemoveTopicPermission": "RemovePermission",
}
