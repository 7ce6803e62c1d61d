"""The actions of SNS; each runs a coroutine named after it."""

from collections.abc import Mapping

from skipmq.actions.action import Action
from skipmq.actions.topics import publish, subscriptions, topics
from skipmq.actions.topics.names import on_account, on_subscription, on_topic

TOPICS: Mapping[str, Action] = {
    "AddTopicPermission": on_topic(topics.add_permission, "AddPermission", is_change=True),
    "ConfirmSubscription": Action(
        run=subscriptions.confirm_subscription,
        needs=subscriptions.confirm_needs,
        is_change=True,
        is_link=True,
    ),
    "CreateTopic": Action(run=topics.create_topic, needs=topics.new_topic_needs, is_change=True),
    "DeleteTopic": on_topic(topics.delete_topic, "DeleteTopic", is_change=True),
    "GetSubscriptionAttributes": on_subscription(
        subscriptions.get_subscription_attributes, "GetSubscriptionAttributes", is_read=True
    ),
    "GetTopicAttributes": on_topic(topics.get_topic_attributes, "GetTopicAttributes", is_read=True),
    "ListSubscriptions": on_account(
        subscriptions.list_subscriptions, "ListSubscriptions", is_read=True
    ),
    "ListSubscriptionsByTopic": on_topic(
        subscriptions.list_subscriptions_by_topic, "ListSubscriptionsByTopic", is_read=True
    ),
    "ListTagsForResource": on_topic(
        topics.list_tags_for_resource, "ListTagsForResource", is_read=True
    ),
    "ListTopics": on_account(topics.list_topics, "ListTopics", is_read=True),
    "Publish": Action(run=publish.publish, needs=publish.publish_needs),
    "PublishBatch": on_topic(publish.publish_batch, "Publish"),
    "RemoveTopicPermission": on_topic(topics.remove_permission, "RemovePermission", is_change=True),
    "SetSubscriptionAttributes": on_subscription(
        subscriptions.set_subscription_attributes, "SetSubscriptionAttributes", is_change=True
    ),
    "SetTopicAttributes": on_topic(
        topics.set_topic_attributes, "SetTopicAttributes", is_change=True
    ),
    "Subscribe": on_topic(subscriptions.subscribe, "Subscribe", is_change=True),
    "TagResource": on_topic(topics.tag_resource, "TagResource", is_change=True),
    "Unsubscribe": on_subscription(
        subscriptions.unsubscribe, "Unsubscribe", is_change=True, is_link=True
    ),
    "UntagResource": on_topic(topics.untag_resource, "UntagResource", is_change=True),
}
