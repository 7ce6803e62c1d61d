"""What is delivered to addresses that are subscribed to topics: claims, and when it is retried.

A claim ends by itself, so that another node delivers what one that was killed had claimed.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from skipmq.database.pool import Pool
from skipmq.database.statement import (
    BOOLEAN,
    INTEGER,
    INTERVAL,
    UUID,
    UUIDS,
    Statement,
    columns,
)

# The SQL functions that store something to deliver notify it.
CHANNEL = "skipmq_deliveries"
# Seconds of a claim: those of an attempt, and of what may hold up its end.
CLAIM_SECONDS = 60.0
_Seconds = Annotated[int, Meta(ge=1, le=3600)]
_Retries = Annotated[int, Meta(ge=0, le=100)]


class Delivery(msgspec.Struct, frozen=True, gc=False):
    """A claimed message for an address, and the delivery policies of its subscription and topic."""

    delivery_id: str
    subscription_id: str
    arn: str
    topic_arn: str
    endpoint: str
    message_id: str
    type: str
    raw: bool
    body: str
    attempt: int
    policy: str | None
    topic_policy: str | None
    # Messages a second that the address takes.
    throttle: float | None

    @property
    def headers(self) -> Mapping[str, str]:
        """Return the headers of its request."""
        headers = {
            "x-amz-sns-message-type": self.type,
            "x-amz-sns-message-id": self.message_id,
            "x-amz-sns-topic-arn": self.topic_arn,
            "Content-Type": "text/plain; charset=UTF-8",
            "User-Agent": "Amazon Simple Notification Service Agent",
        }
        if self.type != "SubscriptionConfirmation":
            headers["x-amz-sns-subscription-arn"] = self.arn
        if self.type == "Notification":
            given = self._given("requestPolicy", "defaultRequestPolicy").get("headerContentType")
            if isinstance(given, str) and given.isascii() and given.isprintable():
                headers["Content-Type"] = given
        if self.raw:
            headers["x-amz-sns-rawdelivery"] = "true"
        return headers

    @property
    def delay(self) -> float | None:
        """Return the seconds until the next attempt, None after the last."""
        given = self._given("healthyRetryPolicy", "defaultHealthyRetryPolicy")
        try:
            policy = msgspec.convert(given, _RetryPolicy)
        except msgspec.ValidationError:
            policy = _RetryPolicy()
        return policy.delay(self.attempt)

    def _given(self, own: str, of_topic: str) -> Mapping[str, Any]:
        topic = effective_delivery({"DeliveryPolicy": self.topic_policy or ""})["http"]
        given = msgspec.json.decode(self.policy) if self.policy else {}
        if topic.get("disableSubscriptionOverrides") is True or not given.get(own):
            given = {own: topic.get(of_topic)}
        return given[own] if isinstance(given[own], dict) else {}


class _RetryPolicy(msgspec.Struct, rename="camel"):
    min_delay_target: _Seconds = 20
    max_delay_target: _Seconds = 20
    num_retries: _Retries = 3
    num_max_delay_retries: _Retries = 0
    num_no_delay_retries: _Retries = 0
    num_min_delay_retries: _Retries = 0
    backoff_function: Literal["linear", "arithmetic", "geometric", "exponential"] = "linear"

    def delay(self, attempt: int) -> float | None:
        """Return the seconds after an attempt, counted from 1, that failed."""
        least, most = self.min_delay_target, max(self.min_delay_target, self.max_delay_target)
        if attempt > self.num_retries:
            return None
        if (step := attempt - self.num_no_delay_retries) <= 0:
            return 0
        if (step := step - self.num_min_delay_retries) <= 0:
            return least
        last = self.num_retries - self.num_no_delay_retries
        last -= self.num_min_delay_retries + self.num_max_delay_retries
        if step > last:
            return most
        part = (step - 1) / max(last - 1, 1)
        if self.backoff_function == "arithmetic":
            part *= step / last
        elif self.backoff_function == "geometric":
            return float(least * (most / least) ** part)
        elif self.backoff_function == "exponential":
            part = (2 ** (step - 1) - 1) / max(2 ** (last - 1) - 1, 1)
        return least + (most - least) * part


_DELIVERY = {
    "http": {
        "defaultHealthyRetryPolicy": msgspec.to_builtins(_RetryPolicy()),
        "disableSubscriptionOverrides": False,
        "defaultRequestPolicy": {"headerContentType": "text/plain; charset=UTF-8"},
    }
}


class _ThrottlePolicy(msgspec.Struct, rename="camel"):
    max_receives_per_second: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None


class _RequestPolicy(msgspec.Struct, rename="camel"):
    header_content_type: str | None = None


class SubscriptionPolicy(msgspec.Struct, rename="camel"):
    """The members of a subscription's DeliveryPolicy, to check them."""

    healthy_retry_policy: _RetryPolicy | None = None
    throttle_policy: _ThrottlePolicy | None = None
    request_policy: _RequestPolicy | None = None


class _HttpPolicy(msgspec.Struct, rename="camel"):
    default_healthy_retry_policy: _RetryPolicy | None = None
    default_throttle_policy: _ThrottlePolicy | None = None
    default_request_policy: _RequestPolicy | None = None
    disable_subscription_overrides: bool | None = None


class TopicPolicy(msgspec.Struct):
    """The members of a topic's DeliveryPolicy, to check them."""

    http: _HttpPolicy | None = None


_CLAIM = Statement(
    f"select {columns(Delivery, delivery_id='delivery_id::text', subscription_id='subscription_id::text', message_id='message_id::text')}"  # noqa: E501
    " from skipmq.claim_deliveries($1, $2, extract(epoch from $3::interval), $4)",
    INTEGER, INTEGER, INTERVAL, UUIDS,
    repeatable=False,
)  # fmt: skip
_SETTLE = Statement(
    "select skipmq.settle_delivery($1, $2, $3, extract(epoch from $4::interval))",
    UUID, INTEGER, BOOLEAN, INTERVAL,
    repeatable=False,
)  # fmt: skip


def effective_delivery(attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return how a topic with these attributes delivers by HTTP."""
    if not (given := attributes.get("DeliveryPolicy")):
        return _DELIVERY
    http = msgspec.json.decode(given).get("http") or {}
    return {"http": {"disableSubscriptionOverrides": False, **http}}


async def claim(database: Pool, limit: int, each: int, busy: Sequence[str]) -> list[Delivery]:
    """Claim what is due: at most `each` of a subscription that is not `busy`, `limit` in all."""
    rows = await database.rows(_CLAIM, (limit, each, CLAIM_SECONDS, busy))
    return [Delivery(*row) for row in rows]


async def settle(database: Pool, delivery: Delivery, *, delivered: bool, again: bool) -> str | None:
    """End an attempt, after which there is another one only if `again`; return what became of it.

    It is delivered, deferred, dead-lettered or dropped; None if another node has claimed it since.
    """
    delay = delivery.delay if again else None
    rows = await database.rows(_SETTLE, (delivery.delivery_id, delivery.attempt, delivered, delay))
    outcome: str | None = rows[0][0]
    return outcome
