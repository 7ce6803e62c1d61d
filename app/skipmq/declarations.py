"""The attributes of declared queues, as TOML, tests and imports write them."""

import json
from collections.abc import Mapping
from typing import Any

from skipmq import names

REDRIVE_POLICY = "RedrivePolicy"
# Where each policy names queues.
_QUEUES = {REDRIVE_POLICY: "deadLetterTargetArn", "RedriveAllowPolicy": "sourceQueueArns"}


def text(value: Any) -> str:
    """Return a value as the text of an attribute: a table, such as RedrivePolicy, as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping | list | tuple | bool):
        return json.dumps(value, ensure_ascii=False)
    return str(value)


def with_arns(attribute: str, value: str, account: str, region: str) -> str:
    """Return an attribute in which queues that a policy names have ARNs of an account and region.

    What is not such a policy is returned as it is: SQS says what is wrong with it.
    """
    if (member := _QUEUES.get(attribute)) is None:
        return value
    try:
        policy = json.loads(value)
    except ValueError:
        return value
    if not isinstance(policy, dict) or member not in policy:
        return value
    queues = policy[member]
    completed = (
        [_arn(each, account, region) for each in queues]
        if isinstance(queues, list)
        else _arn(queues, account, region)
    )
    return json.dumps(policy | {member: completed})


def _arn(queue: Any, account: str, region: str) -> Any:
    if not isinstance(queue, str) or not queue or ":" in queue or "/" in queue:
        return queue
    named = names.parse(queue)
    return f"arn:aws:sqs:{named.region or region}:{named.account or account}:{named.name}"
