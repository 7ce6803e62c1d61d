"""The pages of topics: all of them, and one with its subscriptions, to which it publishes."""

import flask
from flask.typing import ResponseReturnValue

from skipmq.console import site
from skipmq.console.visit import current, text
from skipmq.protocol import errors
from skipmq.protocol.identity import TopicName


def add(pages: flask.Blueprint) -> None:
    pages.add_url_rule("/topics", "topics", _all)
    pages.add_url_rule("/topics/<name>", "topic", _one)
    pages.add_url_rule("/topics/<name>", "publish", _publish, methods=["POST"])


def _arn(name: str) -> str:
    identity = current().identity
    return TopicName(identity.account, identity.region, name).arn


def _all() -> ResponseReturnValue:
    result, error = current().read("ListTopics", NextToken=flask.request.args.get("next"))
    return flask.render_template(
        "topics.html",
        error=error,
        topics=[each["TopicArn"].rpartition(":")[2] for each in result.get("Topics", [])],
        next_token=result.get("NextToken"),
    )


def _one(name: str, failure: errors.SqsError | None = None) -> ResponseReturnValue:
    arn = _arn(name)
    result, error = current().read("GetTopicAttributes", TopicArn=arn)
    token = flask.request.args.get("next")
    found, denied = current().read("ListSubscriptionsByTopic", TopicArn=arn, NextToken=token)
    page = flask.render_template(
        "topic.html",
        name=name,
        arn=arn,
        error=error,
        denied=denied,
        failed=failure,
        given=flask.request.form,
        attributes=result.get("Attributes", {}),
        subscriptions=found.get("Subscriptions", []),
        next_token=found.get("NextToken"),
    )
    return page, 200 if failure is None else failure.status


@site.showing_errors(_one)
def _publish(name: str) -> ResponseReturnValue:
    answer = current().act(
        "Publish",
        TopicArn=_arn(name),
        Message=flask.request.form.get("Message", ""),
        Subject=text("Subject") or None,
        MessageGroupId=text("MessageGroupId") or None,
        MessageDeduplicationId=text("MessageDeduplicationId") or None,
    )
    site.notice(f"Message {answer['MessageId']} published.")
    return site.see("topic", name=name)
