"""The forms of the console, and what they could change."""

from typing import Any

# Forms by where they are sent to, with fields that would do something.
CHANGES = {
    "create": {"name": "forged", "kind": "standard"},
    "queues/{name}/send": {"body": "forged"},
    "queues/{name}/settings": {"VisibilityTimeout": "77", "was-VisibilityTimeout": "30"},
    "queues/{name}/settings/tags": {"key": "forged", "value": "x"},
    "queues/{name}/settings/tags/remove": {"key": "team"},
    "queues/{name}/settings/policy": {"policy": ""},
    "queues/{name}/redrive": {"confirmed": "yes"},
    "queues/{name}/redrive/cancel": {"handle": "x"},
    "queues/{name}/purge": {"typed": "{name}"},
    "queues/{name}/delete": {"typed": "{name}"},
    "queues/{name}/transfer": {"how": "move", "destination": "x", "reference": "1"},
    "queues/{name}/groups": {"release": "x"},
    "queues/{name}/groups/pause": {"id": "forged"},
    "database/sessions": {"process": "1", "kind": "cancel"},
    "queues/{name}/search": {"how": "delete"},
    "scope": {"account": "210987654321", "region": "eu-west-1"},
}


def attributes(sqs: Any, queue: str) -> dict[str, str]:
    names = ["All", "HistoryMode", "Paused"]
    return dict(sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=names)["Attributes"])


def state(sqs: Any, name: str) -> Any:
    """Return all that a form could change of a queue."""
    queue = sqs.get_queue_url(QueueName=name)["QueueUrl"]
    return attributes(sqs, queue), sqs.list_queue_tags(QueueUrl=queue).get("Tags")


def fields(path: str, name: str) -> dict[str, str]:
    return {key: value.format(name=name) for key, value in CHANGES[path].items()}
