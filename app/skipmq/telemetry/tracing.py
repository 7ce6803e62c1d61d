"""Traces by OpenTelemetry: the one module that imports it, only where SKIPMQ_TRACING is on.

The SDK reads the OTEL_* variables itself: where spans go, how many, and the name of the service.
"""

import logging
import re
import threading
from collections.abc import Awaitable, Iterable, Sequence
from time import monotonic
from typing import Any, Protocol, TypeVar

import structlog
from opentelemetry import context, trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import NonRecordingSpan, Span, SpanContext, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

import skipmq

log = structlog.get_logger()

# How long a process that stops waits for its last spans to be exported, in seconds.
CLOSE_SECONDS = 2.0
# How often it is said that there are more spans than are exported, in seconds.
_BETWEEN_NOTES = 60.0
_DIGITS, _EPOCH_DIGITS = 32, 8
_XRAY_ROOT, _XRAY_PARENT = re.compile("1-([0-9a-f]{8})-([0-9a-f]{24})"), re.compile("[0-9a-f]{16}")

T = TypeVar("T")


class Headers(Protocol):
    """Headers by name in lower case."""

    def get(self, name: str, /) -> str | None:
        """Return the header's value, or None when it was not sent."""


class Tracing:
    """The spans of a process."""

    def __init__(self, instance: str) -> None:
        """Begin to export; `instance` names the process. Raises ValueError for a bad OTEL_*."""
        own = {
            "service.name": "skipmq",
            "service.version": skipmq.__version__,
            "service.instance.id": instance,
        }
        resource = Resource.create(own).merge(OTELResourceDetector().detect())
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(_Exporter()))
        self._tracer = self._provider.get_tracer("skipmq", skipmq.__version__)

    def request(self, name: str, headers: Headers) -> "RequestSpan":
        """Begin the span of a request, a child of the one that its headers name."""
        remote = _remote(headers)
        parent = context.Context() if remote is None else _holding(NonRecordingSpan(remote))
        return RequestSpan(self._tracer.start_span(name, parent, SpanKind.SERVER))

    def transactions(self, operation: str) -> "Transactions":
        """Return what traces the transactions of an operation."""
        return Transactions(self._tracer, operation)

    def wait(self) -> Span | None:
        """Begin the span of a receiver's wait, within that of its request if that will be seen."""
        return self._tracer.start_span("wait") if _current() is not None else None

    def trace_header(self, headers: Headers) -> str | None:
        """Return, as an AWSTraceHeader, the context that a sender gives as W3C's `traceparent`."""
        found = _of_w3c(headers)
        if found is None:
            return None
        root = f"{found.trace_id:0{_DIGITS}x}"
        return (
            f"Root=1-{root[:_EPOCH_DIGITS]}-{root[_EPOCH_DIGITS:]}"
            f";Parent={found.span_id:016x};Sampled={int(found.trace_flags.sampled)}"
        )

    def link(self, trace_headers: Iterable[str | None]) -> None:
        """Link the current request's span to those who sent what it receives."""
        span = _current()
        if span is None:
            return
        for header in trace_headers:
            if header and (sender := _of_xray(header)) is not None:
                span.add_link(sender)

    def close(self) -> None:
        """Export the last spans, within CLOSE_SECONDS."""
        # A collector that takes the connection and does not answer holds the SDK for longer.
        ending = threading.Thread(target=self._provider.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        if ending.is_alive():
            log.warning("the last spans are lost: the collector does not take them")


class RequestSpan:
    """The span of a request, current until it ends; log records of the request have its trace."""

    __slots__ = ("_logged", "_span", "_token")

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token = context.attach(_holding(span))
        trace_id = f"{span.get_span_context().trace_id:0{_DIGITS}x}"
        self._logged = structlog.contextvars.bind_contextvars(trace_id=trace_id)

    @property
    def is_recording(self) -> bool:
        """Tell whether anybody will see the span."""
        return self._span.is_recording()

    def end(self, name: str, attributes: dict[str, Any], *, is_fault: bool) -> None:
        """End the span; a fault is a failure of the node, not of the client."""
        span = self._span
        if span.is_recording():
            span.update_name(name)
            span.set_attributes(attributes)
            if is_fault:
                span.set_status(Status(StatusCode.ERROR))
        span.end()
        structlog.contextvars.reset_contextvars(**self._logged)
        context.detach(self._token)


class Transactions:
    """The spans of transactions of one kind, each of which may be for many requests."""

    def __init__(self, tracer: trace.Tracer, operation: str) -> None:
        self._tracer = tracer
        self._operation = operation

    def origin(self) -> Span | None:
        """Return the span of the current request, if it is one that will be seen."""
        return _current()

    async def traced(self, transaction: Awaitable[T], origins: Sequence[Span | None]) -> T:
        """Run a transaction for requests with these spans, and return its result.

        Its own span is a child of the first, and is linked with the others both ways.
        """
        seen = [span for span in origins if span is not None]
        if not seen:
            return await transaction
        first, *others = seen
        attributes: dict[str, Any] = {
            "db.system.name": "postgresql",
            "db.operation.name": self._operation,
        }
        if len(origins) > 1:
            attributes["db.operation.batch.size"] = len(origins)
        links = [trace.Link(each.get_span_context()) for each in others]
        span = self._tracer.start_span(
            self._operation, _holding(first), SpanKind.CLIENT, attributes, links
        )
        for each in others:
            each.add_link(span.get_span_context())
        try:
            return await transaction
        except Exception as error:
            span.set_attribute("error.type", type(error).__name__)
            if state := getattr(error, "sqlstate", None):
                span.set_attribute("db.response.status_code", state)
            span.set_status(Status(StatusCode.ERROR))
            raise
        finally:
            span.end()


class _Exporter(SpanExporter):
    """Exports spans; says when that begins to fail and when it works again, not at each try."""

    def __init__(self) -> None:
        self._inner = OTLPSpanExporter()
        self._notes = _Notes()
        self._lost = 0

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        result = self._inner.export(spans)
        if result is SpanExportResult.SUCCESS:
            if self._lost:
                log.info("spans are exported again", lost=self._lost)
            self._lost, self._notes.first = 0, ""
        else:
            if not self._lost:
                log.warning("spans cannot be exported, and are lost", reason=self._notes.first)
            self._lost += len(spans)
        return result

    def shutdown(self) -> None:
        self._inner.shutdown()  # type: ignore[no-untyped-call]


class _Notes(logging.Handler):
    """Takes what the SDK logs, which is a line for each try to reach a collector."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        # What the exporter said first since spans were exported last.
        self.first = ""
        self._quiet_until = 0.0
        logger = logging.getLogger("opentelemetry")
        logger.addHandler(self)
        logger.propagate = False

    def emit(self, record: logging.LogRecord) -> None:
        if record.name.startswith("opentelemetry.exporter"):
            self.first = self.first or record.getMessage()
        elif not self.first and monotonic() >= self._quiet_until:
            self._quiet_until = monotonic() + _BETWEEN_NOTES
            log.warning("OpenTelemetry", said=record.getMessage())


def _current() -> Span | None:
    span = trace.get_current_span()
    return span if span.is_recording() else None


def _holding(span: Span) -> context.Context:
    return trace.set_span_in_context(span, context.Context())


def _remote(headers: Headers) -> SpanContext | None:
    """Return the client's span: W3C's, else X-Ray's, which clients of AWS may send instead."""
    found = _of_w3c(headers)
    if found is None and (header := headers.get("x-amzn-trace-id")):
        found = _of_xray(header)
    return found


def _of_w3c(headers: Headers) -> SpanContext | None:
    parent = headers.get("traceparent")
    if not parent:
        return None
    carrier = {"traceparent": parent, "tracestate": headers.get("tracestate") or ""}
    held = TraceContextTextMapPropagator().extract(carrier, context.Context())
    found = trace.get_current_span(held).get_span_context()
    return found if found.is_valid else None


def _of_xray(header: str) -> SpanContext | None:
    """Return the span that a header such as `Root=1-67891233-…;Parent=…;Sampled=1` names.

    Source: AWS X-Ray Developer Guide, "Tracing header". The id of the trace is W3C's, divided.
    """
    fields = dict(field.strip().split("=", 1) for field in header.split(";") if "=" in field)
    root = _XRAY_ROOT.fullmatch(fields.get("Root", ""))
    parent = _XRAY_PARENT.fullmatch(fields.get("Parent", ""))
    if root is None or parent is None:
        return None
    flags = trace.TraceFlags(trace.TraceFlags.SAMPLED if fields.get("Sampled") == "1" else 0)
    ids = int(root[1] + root[2], 16), int(parent[0], 16)
    found = SpanContext(*ids, is_remote=True, trace_flags=flags)
    return found if found.is_valid else None
