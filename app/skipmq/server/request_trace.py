"""The spans of requests, without message bodies.

Source: OpenTelemetry, "Semantic conventions for AWS SQS", "for messaging spans", "for HTTP spans".
"""

from typing import TYPE_CHECKING, Any

from skipmq.actions.dispatch import Outcome, queue_name
from skipmq.config import ConfigError
from skipmq.config.settings import Settings
from skipmq.protocol import answers
from skipmq.protocol.call import Call, Request

if TYPE_CHECKING:
    from skipmq.telemetry.tracing import RequestSpan, Tracing

_TYPES = {
    "SendMessage": "send",
    "SendMessageBatch": "send",
    "ReceiveMessage": "receive",
    "DeleteMessage": "settle",
    "DeleteMessageBatch": "settle",
}
_FAULT = 500


def tracing(settings: Settings, instance: str) -> "Tracing | None":
    """Return the tracing of this process, named `instance`; None if it is off.

    Raises ConfigError if its packages are missing or a variable is invalid.
    """
    if settings.tracing == "off":
        return None
    try:
        # Imported here, since the packages are optional.
        from skipmq.telemetry.tracing import Tracing  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError(
            [
                f"SKIPMQ_TRACING: {error.name} is not installed:"
                " pip install 'skipmq[opentelemetry]', or SKIPMQ_TRACING=off"
            ]
        ) from error
    try:
        return Tracing(instance)
    except ValueError as error:
        raise ConfigError([f"an OTEL_ variable cannot be used: {error}"]) from error


def check(settings: Settings) -> None:
    """Raise ConfigError if tracing is on and cannot start."""
    if (traces := tracing(settings, "")) is not None:
        traces.close()


def end(span: "RequestSpan", request: Request, outcome: Outcome) -> None:
    """End the span of an answered request."""
    response, failure = outcome.response, outcome.failure
    assert response is not None
    name, attributes = request.method, dict[str, Any]()
    if span.is_recording:  # With sampling most spans are not.
        if outcome.call is not None:
            name, attributes = _describe(outcome.call, outcome)
        attributes |= {
            "aws.request_id": request.request_id,
            "client.address": request.client,
            "http.request.method": request.method,
            "http.response.status_code": response.status,
            "messaging.system": "aws_sqs",
        }
        if failure is not None:
            attributes["error.type"] = failure.code
    span.end(name, attributes, is_fault=response.status >= _FAULT)


def _describe(call: Call, outcome: Outcome) -> tuple[str, dict[str, Any]]:
    name, result = call.action, outcome.result
    attributes: dict[str, Any] = {"messaging.operation.name": name}
    if kind := _TYPES.get(name):
        attributes["messaging.operation.type"] = kind
    identity = queue_name(call, outcome.authorised)
    queue = "*" if identity is None else identity.name
    if queue != "*":
        attributes["messaging.destination.name"] = queue
    if (entries := getattr(call.parameters, "Entries", None)) is not None:
        attributes["messaging.batch.message_count"] = len(entries)
    elif isinstance(result, answers.ReceiveMessageResult):
        attributes["messaging.batch.message_count"] = len(result.Messages or ())
    elif isinstance(result, answers.SendMessageResult):
        attributes["messaging.message.id"] = result.MessageId
    return (name if queue == "*" else f"{name} {queue}"), attributes
