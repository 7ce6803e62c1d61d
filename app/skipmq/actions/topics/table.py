"""The actions of SNS; each runs a coroutine named after it."""

from collections.abc import Mapping

from skipmq.actions.action import Action, by_name, on_account
from skipmq.actions.topics import publish, subscriptions, topics
from skipmq.actions.topics.names import on_subscription, on_topic
from skipmq.protocol.identity import TopicName

TOPICS: Mapping[str, Action] = by_name(
    on_topic(topics.add_topic_permission, "AddPermission", is_change=True),
    Action(
        run=subscriptions.confirm_subscription,
        needs=subscriptions.confirm_needs,
        is_change=True,
        is_link=True,
    ),
    Action(run=topics.create_topic, needs=topics.new_topic_needs, is_change=True),
    on_topic(topics.delete_topic, "DeleteTopic", is_change=True),
    on_subscription(
        subscriptions.get_subscription_attributes, "GetSubscriptionAttributes", is_read=True
    ),
    on_topic(topics.get_topic_attributes, "GetTopicAttributes", is_read=True),
    on_account(subscriptions.list_subscriptions, "ListSubscriptions", TopicName, is_read=True),
    on_topic(subscriptions.list_subscriptions_by_topic, "ListSubscriptionsByTopic", is_read=True),
    on_topic(topics.list_tags_for_resource, "ListTagsForResource", is_read=True),
    on_account(topics.list_topics, "ListTopics", TopicName, is_read=True),
    Action(run=publish.publish, needs=publish.publish_needs),
    on_topic(publish.publish_batch, "Publish"),
    on_topic(topics.remove_topic_permission, "RemovePermission", is_change=True),
    on_subscription(
        subscriptions.set_subscription_attributes, "SetSubscriptionAttributes", is_change=True
    ),
    on_topic(topics.set_topic_attributes, "SetTopicAttributes", is_change=True),
    on_topic(subscriptions.subscribe, "Subscribe", is_change=True),
    on_topic(topics.tag_resource, "TagResource", is_change=True),
    on_subscription(subscriptions.unsubscribe, "Unsubscribe", is_change=True, is_link=True),
    on_topic(topics.untag_resource, "UntagResource", is_change=True),
)
