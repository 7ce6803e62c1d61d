"""The commands that manage topics, and publish."""

from typing import Any

import click
from rich.markup import escape

from skipmq.cli import place
from skipmq.cli.output import ask, printing_json, yes_option
from skipmq.cli.queue.queues import attributes_option
from skipmq.cli.source import Source, everything, open_source
from skipmq.telemetry.terminal import visible

_attributes = attributes_option("An attribute of SNS; may be repeated.")


def _arn(node: Source, name: str) -> str:
    """Return the ARN of a topic of the caller's account; raise click.ClickException."""
    if name.startswith("arn:"):
        return name
    for each in everything(node, "ListTopics", "Topics"):
        if each["TopicArn"].endswith(f":{name}"):
            return str(each["TopicArn"])
    raise click.ClickException(f"there is no topic {name}: `skipmq topic create {name}`")


def _endpoint(given: str, topic: str) -> tuple[str, str]:
    """Return the protocol and the endpoint: a URL, or a queue by its ARN or its name alone."""
    if given.startswith(("http://", "https://")):
        return given.partition(":")[0], given
    if given.startswith("arn:"):
        return "sqs", given
    return "sqs", topic.replace(":sns:", ":sqs:").rpartition(":")[0] + f":{given}"


@click.command("create")
@click.argument("name")
@place.reached
@_attributes
@printing_json
def topic_create(name: str, attributes: dict[str, str]) -> tuple[Any, Any]:
    """Create the topic NAME; one that ends in .fifo is a FIFO topic."""
    if name.endswith(".fifo"):
        attributes.setdefault("FifoTopic", "true")
    with open_source(create=True) as node:
        found = node.act("CreateTopic", Name=name, Attributes=attributes)
    return {"arn": found["TopicArn"]}, f"created topic {name}"


@click.command("list")
@place.reached
@printing_json
def topic_list() -> tuple[Any, Any]:
    """List topics."""
    with open_source() as node:
        arns = [each["TopicArn"] for each in everything(node, "ListTopics", "Topics")]
    names = [arn.rpartition(":")[2] for arn in arns]
    return {"topics": arns}, "\n".join(names) or "no topics yet: `skipmq topic create NAME`"


@click.command("show")
@click.argument("name")
@place.reached
@printing_json
def topic_show(name: str) -> tuple[Any, Any]:
    """Show the attributes and the subscriptions of the topic NAME."""
    with open_source() as node:
        arn = _arn(node, name)
        attributes = node.act("GetTopicAttributes", TopicArn=arn)["Attributes"]
        rows = everything(node, "ListSubscriptionsByTopic", "Subscriptions", TopicArn=arn)
    lines = [f"{key} = {value}" for key, value in attributes.items()]
    lines += [f"{row['SubscriptionArn']} to {row['Endpoint']}" for row in rows]
    return {"attributes": attributes, "subscriptions": rows}, escape("\n".join(lines))


@click.command("subscribe")
@click.argument("name")
@click.argument("target", metavar="QUEUE|URL")
@place.reached
@_attributes
@printing_json
def topic_subscribe(name: str, target: str, attributes: dict[str, str]) -> tuple[Any, Any]:
    """Subscribe a queue or an address to the topic NAME; an address has to confirm it."""
    with open_source() as node:
        topic = _arn(node, name)
        protocol, endpoint = _endpoint(target, topic)
        found = node.act(
            "Subscribe",
            TopicArn=topic,
            Protocol=protocol,
            Endpoint=endpoint,
            Attributes=attributes,
        )
    arn = found["SubscriptionArn"]
    return {"arn": arn}, f"subscribed {escape(target)} to {name}: {arn}"


@click.command("unsubscribe")
@click.argument("name")
@click.argument("target", metavar="QUEUE|URL")
@place.reached
@printing_json
def topic_unsubscribe(name: str, target: str) -> tuple[Any, Any]:
    """End the subscription of a queue or an address to the topic NAME."""
    with open_source() as node:
        topic = _arn(node, name)
        _, endpoint = _endpoint(target, topic)
        rows = everything(node, "ListSubscriptionsByTopic", "Subscriptions", TopicArn=topic)
        arn = next((row["SubscriptionArn"] for row in rows if row["Endpoint"] == endpoint), None)
        if arn is None:
            raise click.ClickException(
                f"{visible(target)} is not subscribed: `skipmq topic show {name}` lists what is"
            )
        if not arn.startswith("arn:"):
            raise click.ClickException(f"{visible(target)} is pending, which ends in two days")
        node.act("Unsubscribe", SubscriptionArn=arn)
    return {"unsubscribed": arn}, f"unsubscribed {escape(target)} from {name}"


@click.command("publish")
@click.argument("name")
@click.argument("message")
@place.reached
@click.option("--subject", help="The subject.")
@click.option("--group", help="The message group, which a FIFO topic needs.")
@printing_json
def topic_publish(
    name: str, message: str, subject: str | None, group: str | None
) -> tuple[Any, Any]:
    """Publish MESSAGE to the topic NAME."""
    with open_source() as node:
        found = node.act(
            "Publish",
            TopicArn=_arn(node, name),
            Message=message,
            Subject=subject,
            MessageGroupId=group,
        )
    return {"message_id": found["MessageId"]}, f"published {found['MessageId']}"


@click.command("delete")
@click.argument("name")
@place.reached
@yes_option
@printing_json
def topic_delete(name: str, *, yes: bool) -> tuple[Any, Any]:
    """Delete the topic NAME with its subscriptions."""
    if not yes:
        ask(f"Delete the topic {name} and its subscriptions?")
    with open_source() as node:
        node.act("DeleteTopic", TopicArn=_arn(node, name))
    return {"deleted": name}, f"deleted topic {name}"
