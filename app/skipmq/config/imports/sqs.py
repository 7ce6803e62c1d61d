"""Read the queues of an SQS endpoint: AWS, LocalStack, moto, ElasticMQ or another SkipMQ.

Source: SQS API Reference, ListQueues, GetQueueAttributes and ListQueueTags.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any

from skipmq.config import declarations
from skipmq.config.declarations import DeclaredQueue, Difference, Found, UnreadableError
from skipmq.extras import MissingExtraError
from skipmq.protocol import names
from skipmq.protocol.queue_attributes import ATTRIBUTES, OURS

# What every endpoint reports of a queue, and is not set.
_REPORTED = {"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp"}
_COUNTS = "ApproximateNumberOfMessages"
_FIFO = "FifoQueue"
_KMS, _KMS_REUSE = "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds"
_RESERVED_TAGS = "aws:"
_PAGE, _THREADS = 1000, 8
_REFUSED = {"AccessDenied", "AccessDeniedException", "AWS.SimpleQueueService.AccessDenied"}
_GONE = {"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"}
# Principals that no access key of SkipMQ stands for.
_FOREIGN = ("Service", "Federated", "CanonicalUser")


def client(endpoint_url: str | None, region: str | None) -> Any:
    """Return boto3's client; credentials come from the places where the AWS CLI looks.

    Raises MissingExtraError, and UnreadableError for a region, an endpoint or a profile that is not
    usable.
    """
    try:
        boto3 = import_module("boto3")
    except ImportError as error:
        raise MissingExtraError(
            "`skipmq import --from-sqs` needs boto3: pip install 'skipmq[testing]'"
        ) from error
    failures = import_module("botocore.exceptions")
    options = {"endpoint_url": endpoint_url, "region_name": region}
    try:
        return boto3.session.Session().client("sqs", **options)
    except failures.NoRegionError as error:
        raise UnreadableError("name the region of the queues: --region us-east-1") from error
    except failures.ProfileNotFound as error:
        raise UnreadableError(
            f"there is no profile {error.kwargs['profile']} in the files of the AWS CLI: `aws"
            " configure list-profiles` lists them, and AWS_PROFILE names one"
        ) from error
    except (failures.BotoCoreError, ValueError) as error:
        raise UnreadableError(f"the endpoint is not usable: {_line(error)}") from error


def read(
    sqs: Any,
    account: str,
    region: str,
    prefix: str = "",
    seen: Callable[[int, int], None] = lambda *_: None,
) -> Found:
    """Return the queues whose names begin with a prefix, with their attributes, policies and tags.

    Policies are rewritten to an account and a region; `seen` is called with the queues that are
    read and their total. Raises UnreadableError.
    """
    failures = import_module("botocore.exceptions")
    try:
        urls = [*_urls(sqs, prefix)]
        reading = _Reading(sqs, account, region)
        queues = []
        with ThreadPoolExecutor(_THREADS) as pool:
            for number, queue in enumerate(pool.map(reading.queue, urls), start=1):
                queues += [queue] if queue else []
                seen(number, len(urls))
    except failures.ClientError as error:
        raise UnreadableError(_explained(error)) from error
    except failures.NoCredentialsError as error:
        raise UnreadableError(
            "there are no credentials for the endpoint: set AWS_ACCESS_KEY_ID and"
            " AWS_SECRET_ACCESS_KEY, or AWS_PROFILE. LocalStack, moto and ElasticMQ take any"
        ) from error
    except failures.BotoCoreError as error:
        raise UnreadableError(f"the queues cannot be read: {_line(error)}") from error
    return Found(tuple(queues), differences=tuple(sorted(reading.differences)))


def _urls(sqs: Any, prefix: str) -> Iterator[str]:
    # Without MaxResults the answer has no token for a next page.
    asked: dict[str, Any] = {"QueueNamePrefix": prefix} if prefix else {}
    asked["PaginationConfig"] = {"PageSize": _PAGE}
    for page in sqs.get_paginator("list_queues").paginate(**asked):
        yield from page.get("QueueUrls", [])


@dataclass(slots=True)
class _Reading:
    """The queues of an endpoint that are read, and the differences so far."""

    sqs: Any
    account: str
    region: str
    differences: list[Difference] = field(default_factory=list)

    def queue(self, url: str) -> DeclaredQueue | None:
        """Return a queue, or None if it was deleted since it was listed."""
        failures = import_module("botocore.exceptions")
        name = url.rpartition("/")[2]
        try:
            reported = self._reported(url)
            tags = self.sqs.list_queue_tags(QueueUrl=url).get("Tags", {})
        except failures.ClientError as error:
            if error.response["Error"]["Code"] in _GONE:
                self._differ(name, "it was deleted meanwhile")
                return None
            raise
        source = names.parse(reported["QueueArn"])
        attributes = dict(self._attributes(name, source, reported))
        reserved = {tag for tag in tags if tag.startswith(_RESERVED_TAGS)}
        for tag in sorted(reserved):
            self._differ(f"{name}: tag {tag}", "tags in aws: are AWS's own, and are left out")
        kept = {tag: value for tag, value in tags.items() if tag not in reserved}
        return DeclaredQueue(source.name, attributes, tags=kept)

    def _reported(self, url: str) -> Mapping[str, str]:
        failures = import_module("botocore.exceptions")
        try:
            # SkipMQ returns its own only by name; other endpoints refuse them.
            asked = ["All", *OURS]
            answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=asked)
        except failures.ClientError as error:
            if error.response["Error"]["Code"] in _GONE | _REFUSED:
                raise
            answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
        attributes: Mapping[str, str] = answer["Attributes"]
        return attributes

    def _attributes(
        self, name: str, source: names.Named, reported: Mapping[str, str]
    ) -> Iterator[tuple[str, str]]:
        for attribute, value in sorted(reported.items()):
            where = f"{name}: {attribute}"
            if attribute in _REPORTED or attribute.startswith(_COUNTS) or not value:
                continue
            if attribute == _FIFO:
                # Some emulators report it of standard queues, too.
                if value.lower() == "true":
                    yield attribute, "true"
            elif attribute == _KMS:
                self._differ(
                    where,
                    f"no KMS is asked, so {value} is left out: encrypt the disks of the database",
                )
            elif attribute == _KMS_REUSE or _is_own_default(attribute, value):
                continue
            elif attribute not in ATTRIBUTES:
                self._differ(where, f"SkipMQ has no such attribute; {value!r} is left out")
            elif not source.name.endswith(".fifo") and ATTRIBUTES[attribute].allowed.fifo:
                continue
            elif attribute == "Policy":
                yield attribute, self._policy(where, source, value)
            else:
                yield attribute, declarations.with_names(attribute, value, source)

    def _policy(self, where: str, source: names.Named, text: str) -> str:
        """Return a policy with the ARNs and the principals of the own account."""
        try:
            policy = json.loads(text)
        except ValueError:
            return text
        for foreign in sorted({*_foreign(policy)}):
            self._differ(
                where, f"{foreign} is none here: give what sends in its place an access key"
            )
        return json.dumps(self._own(policy, source), ensure_ascii=False)

    def _own(self, value: Any, source: names.Named) -> Any:
        if isinstance(value, Mapping):
            return {key: self._own(each, source) for key, each in value.items()}
        if isinstance(value, list):
            return [self._own(each, source) for each in value]
        if not isinstance(value, str):
            return value
        if value == source.account:
            return self.account
        parts = value.split(":")
        match parts:
            case ["arn", _, "sqs", region, account, *_] if (region, account) == (
                source.region,
                source.account,
            ):
                parts[1], parts[3], parts[4] = "aws", self.region, self.account
            case ["arn", _, "iam" | "sts", "", source.account, *_]:
                parts[4] = self.account
        return ":".join(parts)

    def _differ(self, where: str, remedy: str) -> None:
        self.differences.append(Difference(where, remedy))


def _is_own_default(attribute: str, value: str) -> bool:
    """Return whether a value need not be declared, as a cluster may refuse it of a declaration."""
    return attribute in OURS and value == ATTRIBUTES[attribute].default


def _foreign(policy: Any) -> Iterator[str]:
    """Yield the principals of a policy that are services and the like."""
    statements = policy.get("Statement", []) if isinstance(policy, Mapping) else []
    for each in statements if isinstance(statements, list) else [statements]:
        principal = each.get("Principal") if isinstance(each, Mapping) else None
        if isinstance(principal, Mapping):
            for kind in _FOREIGN:
                found = principal.get(kind, [])
                for one in found if isinstance(found, list) else [found]:
                    yield f"the {kind.lower()} {one}"


def _explained(error: Any) -> str:
    code, action = error.response["Error"]["Code"], error.operation_name
    if code in _REFUSED:
        return (
            f"the endpoint refuses {action}: allow sqs:ListQueues, sqs:GetQueueAttributes and"
            " sqs:ListQueueTags to its caller"
        )
    return f"the endpoint refuses {action}: {code}: {_line(error.response['Error']['Message'])}"


def _line(error: object) -> str:
    return " ".join(str(error).split())
