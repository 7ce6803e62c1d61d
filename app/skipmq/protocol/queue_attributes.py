"""The attributes of queues: type, default, allowed values, and whether for FIFO queues only.

Source: SQS API Reference, SetQueueAttributes and GetQueueAttributes.
"""

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple, Self, TypeAlias, get_args, get_origin, get_type_hints

import msgspec
from msgspec.structs import fields

from skipmq.protocol import limits

# Digits of an integer, at most.
_DIGITS = 12


class Allowed(NamedTuple):
    """The allowed values of an attribute; `fifo`: for FIFO queues only; `ours`: not one of SQS.

    One that is a `limit` is empty where there is none, or a number with up to `decimals`.
    """

    minimum: int = 0
    maximum: int = 0
    choices: tuple[str, ...] = ()
    fifo: bool = False
    ours: bool = False
    is_read_only: bool = False
    standard: bool = False
    is_limit: bool = False
    decimals: int = 0


_IN_FLIGHT = Allowed(1, limits.IN_FLIGHT, is_limit=True)
_RATE = Allowed(1, limits.RECEIVE_RATE, is_limit=True, decimals=3)


class QueueAttributes(msgspec.Struct, frozen=True, kw_only=True, rename="pascal"):
    """The attributes of a queue; a standard queue has FIFO's at their defaults."""

    visibility_timeout: Annotated[int, Allowed(0, limits.VISIBILITY_TIMEOUT)] = 30
    delay_seconds: Annotated[int, Allowed(0, limits.DELAY_SECONDS)] = 0
    maximum_message_size: Annotated[
        int, Allowed(limits.MINIMUM_MESSAGE_BYTES, limits.MESSAGE_BYTES)
    ] = limits.MESSAGE_BYTES
    message_retention_period: Annotated[
        int, Allowed(limits.MINIMUM_RETENTION, limits.MAXIMUM_RETENTION)
    ] = 345_600
    receive_message_wait_time_seconds: Annotated[int, Allowed(0, limits.WAIT_SECONDS)] = 0
    policy: str = ""
    redrive_policy: str = ""
    redrive_allow_policy: str = ""
    kms_master_key_id: str = ""
    kms_data_key_reuse_period_seconds: Annotated[
        int, Allowed(limits.MINIMUM_KMS_REUSE, limits.MAXIMUM_KMS_REUSE)
    ] = 300
    sqs_managed_sse_enabled: bool = True
    # The longest delay of a message, in seconds.
    maximum_delay_seconds: Annotated[int, Allowed(0, limits.MAXIMUM_DELAY, ours=True)] = (
        limits.DELAY_SECONDS
    )
    # What the history keeps of a settled message.
    history_mode: Annotated[str, Allowed(choices=("off", "metadata", "full"), ours=True)] = (
        "metadata"
    )
    # What a message's body is, in JSON Schema, and whether sends are held to it.
    body_schema: Annotated[str, Allowed(ours=True)] = ""
    body_schema_mode: Annotated[str, Allowed(choices=("describe", "enforce"), ours=True)] = (
        "describe"
    )
    # The standbys that must have a message before its send is acknowledged.
    replication_mode: Annotated[
        str, Allowed(choices=("none", "any", "majority", "all"), ours=True)
    ] = "any"
    # Seconds for which a deduplication id is known: in a FIFO queue at least 300, in a standard
    # queue 0 for no deduplication.
    deduplication_seconds: Annotated[int, Allowed(0, limits.DEDUPLICATION_SECONDS, ours=True)] = 0
    # The delay before a redelivery, as JSON.
    retry_backoff: Annotated[str, Allowed(ours=True)] = ""
    # The most messages in flight, and a second, of the queue and of each group; and at once.
    maximum_in_flight: Annotated[str, _IN_FLIGHT] = ""
    maximum_in_flight_per_group: Annotated[str, _IN_FLIGHT._replace(standard=True)] = ""
    maximum_receive_rate: Annotated[str, _RATE] = ""
    maximum_receive_rate_per_group: Annotated[str, _RATE] = ""
    receive_burst: Annotated[str, _RATE._replace(decimals=0)] = ""
    # Whether messages of a higher priority come first, or more often.
    priority_mode: Annotated[
        str, Allowed(choices=("none", "strict", "weighted"), standard=True, is_limit=True)
    ] = "none"
    # Whether receives return no messages.
    paused: Annotated[bool, Allowed(ours=True)] = False
    # Whether it has or had limits, priorities or paused groups.
    limited: Annotated[bool, Allowed(is_read_only=True)] = False
    # By whom, and since when in seconds since 1970.
    paused_by: Annotated[str, Allowed(is_read_only=True)] = ""
    paused_timestamp: Annotated[int, Allowed(is_read_only=True)] = 0
    content_based_deduplication: Annotated[bool, Allowed(fifo=True)] = False
    deduplication_scope: Annotated[str, Allowed(choices=("queue", "messageGroup"), fifo=True)] = (
        "queue"
    )
    fifo_throughput_limit: Annotated[
        str, Allowed(choices=("perQueue", "perMessageGroupId"), fifo=True)
    ] = "perQueue"

    @classmethod
    def from_texts(cls, texts: Mapping[str, str]) -> Self:
        """Return the attributes from their texts by SQS name, as the database stores them.

        Unknown attributes are ignored: the schema may be the next release's.
        """
        return msgspec.convert(texts, cls, strict=False)

    def texts(self, *, fifo: bool) -> dict[str, str]:
        """Return the attributes of a queue as texts by SQS name."""
        return {
            each.name: _text(getattr(self, each.field))
            for each in ATTRIBUTES.values()
            if not (each.allowed.standard if fifo else each.allowed.fifo)
        }


_Delay: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=limits.VISIBILITY_TIMEOUT)]


class RetryBackoff(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The delay before a redelivery: `base` seconds, times `factor` for each receive but the first.

    It is `maximum` seconds at most, less a random part of up to `jitter`, a number from 0 to 1.
    """

    base: _Delay
    factor: Annotated[float, msgspec.Meta(ge=1, le=100)] = 2
    jitter: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.1
    maximum: _Delay = 3600

    def __post_init__(self) -> None:
        if self.base > self.maximum:
            raise ValueError("`base` is greater than `maximum`")


class Attribute(NamedTuple):
    """The SQS name of an attribute, its field in QueueAttributes, its type and its default."""

    name: str
    field: str
    type: type
    default: str
    allowed: Allowed

    def stored(self, text: str) -> str | None:
        """Return a value in the form in which it is stored, or None if it is not allowed."""
        allowed = self.allowed
        if self.type is int:
            is_number = text.isascii() and text.isdigit() and len(text) <= _DIGITS
            is_allowed = is_number and allowed.minimum <= int(text) <= allowed.maximum
            return str(int(text)) if is_allowed else None
        if self.type is bool:
            return text.lower() if text.lower() in {"true", "false"} else None
        if allowed.is_limit and not allowed.choices:
            return _limit(text, allowed) if text else text
        if (allowed.ours or allowed.is_limit) and allowed.choices:
            text = text.lower()
        return text if not allowed.choices or text in allowed.choices else None

    @property
    def range(self) -> str:
        """Return what values are allowed, in words."""
        allowed = self.allowed
        if self.type is int:
            return f"a whole number from {allowed.minimum} to {allowed.maximum}"
        choices = ("true", "false") if self.type is bool else allowed.choices
        if choices:
            return " or ".join((", ".join(choices[:-1]), choices[-1]))
        lowest = allowed.minimum / 10**allowed.decimals
        kind = "number" if allowed.decimals else "whole number"
        return f"a {kind} from {lowest:g} to {allowed.maximum}, or empty for no limit"


def _limit(text: str, allowed: Allowed) -> str | None:
    whole, point, decimals = text.partition(".")
    digits = whole + decimals
    if not (digits.isascii() and digits.isdigit() and whole and len(text) <= _DIGITS):
        return None
    if len(decimals) > allowed.decimals or bool(point) != bool(decimals):
        return None
    scale = 10**allowed.decimals
    if not allowed.minimum <= float(text) * scale <= allowed.maximum * scale:
        return None
    if not point:
        return str(int(text))
    return f"{float(text):.{allowed.decimals}f}".rstrip("0").rstrip(".")


def _text(value: int | bool | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _table() -> dict[str, Attribute]:
    hints = get_type_hints(QueueAttributes, include_extras=True)
    table = {}
    for each in fields(QueueAttributes):
        hint: Any = hints[each.name]
        type_, allowed = get_args(hint) if get_origin(hint) is Annotated else (hint, Allowed())
        if not allowed.is_read_only:
            table[each.encode_name] = Attribute(
                each.encode_name, each.name, type_, _text(each.default), allowed
            )
    return table


# By SQS name. FifoQueue is not among them: it is fixed when a queue is created.
ATTRIBUTES = _table()
# Those beyond SQS, which are returned only where they are named.
OURS = tuple(name for name, attribute in ATTRIBUTES.items() if attribute.allowed.ours)
# Those of a paused queue, which are set by pausing it.
PAUSED = ("PausedBy", "PausedTimestamp")
# Those whose values are JSON.
DOCUMENTS = frozenset({
    "Policy", "RedrivePolicy", "RedriveAllowPolicy", "BodySchema", "RetryBackoff",
})  # fmt: skip
