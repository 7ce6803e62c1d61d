"""Sends messages over HTTP, where there is no transaction to share."""

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from time import time as own_clock  # noqa: TID251 - a time of delivery is the caller's.
from typing import TYPE_CHECKING, Any

from skipmq.client.errors import ClientError
from skipmq.client.message import Sending
from skipmq.protocol import limits

if TYPE_CHECKING:
    from skipmq.client.http import Caller

_MAX_ENTRIES = 10


def is_url(value: object) -> bool:
    """Return whether it is the address of a broker that is spoken to over HTTP."""
    return isinstance(value, str) and value.startswith(("http://", "https://"))


def send(
    url: str, name: str, account: str | None, region: str | None, sending: Sending
) -> list[str]:
    """Send messages over HTTP, ten in a request; return their ids.

    Raises ClientError for what the broker refuses, and UnavailableError where it does not answer:
    then the messages of the last request may have been sent.
    """
    broker = _caller(url)
    queue = broker.queue_url(name, account, region)
    ids: list[str] = []
    for entries in _requests(sending):
        request = {"QueueUrl": queue, "Entries": entries}
        answer = broker.call("SendMessageBatch", request, region)
        if failed := answer.get("Failed"):
            raise ClientError(
                f"{url} refused {len(failed)} of the messages to {name!r}: {failed[0]['Code']}:"
                f" {failed[0].get('Message', '')}"
            )
        by_id = {each["Id"]: each["MessageId"] for each in answer["Successful"]}
        ids += [by_id[each["Id"]] for each in entries]
    return ids


def _requests(sending: Sending) -> Iterator[list[dict[str, Any]]]:
    """Yield the entries of requests, each with no more bytes than a message may have."""
    common: dict[str, Any] = {"MessageAttributes": sending.attributes}
    if sending.delay is not None:
        common["DelaySeconds"] = sending.delay
    if sending.deliver_at is not None:
        common["DelaySeconds"] = max(0, ceil(sending.deliver_at.timestamp() - own_clock()))
    if sending.group is not None:
        common["MessageGroupId"] = sending.group
    extra = len(repr(sending.attributes))
    entries: list[dict[str, Any]] = []
    size = 0
    for number, body in enumerate(sending.bodies):
        entry = {"Id": str(number), "MessageBody": body, **common}
        if sending.deduplication_ids and (own := sending.deduplication_ids[number]):
            entry["MessageDeduplicationId"] = own
        bytes_ = len(body.encode()) + extra
        if entries and (len(entries) == _MAX_ENTRIES or size + bytes_ > limits.MESSAGE_BYTES):
            yield entries
            entries, size = [], 0
        entries.append(entry)
        size += bytes_
    if entries:
        yield entries


@lru_cache
def _caller(url: str) -> "Caller":
    """Return what calls the actions at a URL, with the connections that it has kept."""
    from skipmq.client.http import Caller  # noqa: PLC0415 - most programs send by SQL.

    return Caller(url)
