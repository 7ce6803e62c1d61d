"""The attributes that queues have: type, default, allowed values and kind of queue of each.

Source: SQS API Reference, SetQueueAttributes and GetQueueAttributes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import fields

from skipmq import limits

# The longest text of an integer that is read.
_DIGITS = 12


class Allowed(NamedTuple):
    """The values that an attribute may have, which queues have it, and whether it is SkipMQ's."""

    least: int = 0
    most: int = 0
    choices: tuple[str, ...] = ()
    fifo: bool = False
    ours: bool = False


class QueueAttributes(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """What a queue is set to; a standard queue has those of FIFO queues at their defaults."""

    visibility_timeout: Annotated[int, Allowed(0, limits.VISIBILITY_TIMEOUT)] = 30
    delay_seconds: Annotated[int, Allowed(0, limits.DELAY_SECONDS)] = 0
    maximum_message_size: Annotated[
        int, Allowed(limits.MESSAGE_BYTES_LEAST, limits.MESSAGE_BYTES)
    ] = limits.MESSAGE_BYTES
    message_retention_period: Annotated[
        int, Allowed(limits.RETENTION_LEAST, limits.RETENTION_MOST)
    ] = 345_600
    receive_message_wait_time_seconds: Annotated[int, Allowed(0, limits.WAIT_SECONDS)] = 0
    policy: str = ""
    redrive_policy: str = ""
    redrive_allow_policy: str = ""
    kms_master_key_id: str = ""
    kms_data_key_reuse_period_seconds: Annotated[
        int, Allowed(limits.KMS_REUSE_LEAST, limits.KMS_REUSE_MOST)
    ] = 300
    sqs_managed_sse_enabled: bool = True
    # What is kept of a settled message.
    history_mode: Annotated[str, Allowed(choices=("off", "metadata", "full"), ours=True)] = (
        "metadata"
    )
    # How many other servers have a message before its send is answered.
    replication_mode: Annotated[
        str, Allowed(choices=("none", "any", "majority", "all"), ours=True)
    ] = "any"
    content_based_deduplication: Annotated[bool, Allowed(fifo=True)] = False
    deduplication_scope: Annotated[str, Allowed(choices=("queue", "messageGroup"), fifo=True)] = (
        "queue"
    )
    fifo_throughput_limit: Annotated[
        str, Allowed(choices=("perQueue", "perMessageGroupId"), fifo=True)
    ] = "perQueue"

    @classmethod
    def read(cls, texts: Mapping[str, str]) -> Self:
        """Return the attributes of these texts by SQS name, as the database has them.

        Attributes of a later release are ignored, so that its schema serves this one too.
        """
        return msgspec.convert(texts, cls, strict=False)

    def texts(self, *, fifo: bool) -> dict[str, str]:
        """Return the attributes of a queue as texts by SQS name."""
        return {
            each.name: _text(getattr(self, each.field))
            for each in ATTRIBUTES.values()
            if fifo or not each.allowed.fifo
        }


class Attribute(NamedTuple):
    """An attribute by its SQS name: the field of QueueAttributes, its type and its default."""

    name: str
    field: str
    type: type
    default: str
    allowed: Allowed

    def stored(self, text: str) -> str | None:
        """Return the form in which a text is stored, or None when it is not allowed."""
        allowed = self.allowed
        if self.type is int:
            is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS
            return (
                str(int(text)) if is_number and allowed.least <= int(text) <= allowed.most else None
            )
        if self.type is bool:
            return text.lower() if text.lower() in {"true", "false"} else None
        if allowed.ours:
            text = text.lower()
        return text if not allowed.choices or text in allowed.choices else None


def _text(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table() -> dict[str, Attribute]:
    hints = get_type_hints(QueueAttributes, include_extras=True)
    table = {}
    for each in fields(QueueAttributes):
        hint: Any = hints[each.name]
        type_, allowed = get_args(hint) if get_origin(hint) is Annotated else (hint, Allowed())
        table[each.encode_name] = Attribute(
            each.encode_name, each.name, type_, _text(each.default), allowed
        )
    return table


# By SQS name. FifoQueue is none of them: it is a queue's kind, fixed when the queue is created.
ATTRIBUTES = _table()
