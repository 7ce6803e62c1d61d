"""A receiver of OpenTelemetry's protocol (OTLP over HTTP), which keeps the spans that it gets."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue
from opentelemetry.proto.trace.v1.trace_pb2 import Span as Sent
from opentelemetry.proto.trace.v1.trace_pb2 import Status

from support.http import eventually

SERVER, CLIENT = Sent.SPAN_KIND_SERVER, Sent.SPAN_KIND_CLIENT


@dataclass(frozen=True)
class Span:
    """A span as it was received; ids in hexadecimal."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    is_error: bool
    resource: dict[str, Any]


class Collector:
    """What a collector on a port has received."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"
        self.spans: list[Span] = []
        self.bytes = b""
        # While it is unwell it refuses all.
        self.is_well = True
        self.refused = 0

    def receive(self, body: bytes) -> None:
        self.bytes += body
        for each in ExportTraceServiceRequest.FromString(body).resource_spans:
            resource = _values(each.resource.attributes)
            self.spans += [_span(s, resource) for scope in each.scope_spans for s in scope.spans]

    def find(self, condition: Callable[[Span], bool]) -> Span:
        """Wait for a span and return it."""
        found: Span = eventually(lambda: next(filter(condition, list(self.spans)), None))
        return found

    def of_request(self, answer: dict[str, Any]) -> Span:
        """Wait for the span of the request that was answered."""
        sought = answer["ResponseMetadata"]["RequestId"]
        return self.find(lambda span: span.attributes.get("aws.request_id") == sought)

    def children(self, parent: Span) -> list[Span]:
        """Return the spans within one; of those that end before it none is missing."""
        return [span for span in self.spans if span.parent == parent.id]


@contextmanager
def collecting(port: int, *, is_well: bool = True) -> Iterator[Collector]:
    """Give a collector that serves on a port."""
    collector = Collector(port)
    collector.is_well = is_well

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if collector.is_well:
                collector.receive(body)
            else:
                collector.refused += 1
            self.send_response(200 if collector.is_well else 400)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the parent's.
            pass

    with ThreadingHTTPServer(("127.0.0.1", port), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield collector
        server.shutdown()


def _span(sent: Sent, resource: dict[str, Any]) -> Span:
    return Span(
        sent.name,
        sent.trace_id.hex(),
        sent.span_id.hex(),
        sent.parent_span_id.hex(),
        sent.kind,
        _values(sent.attributes),
        [(link.trace_id.hex(), link.span_id.hex()) for link in sent.links],
        sent.status.code == Status.STATUS_CODE_ERROR,
        resource,
    )


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in attributes}


def _value(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    return getattr(value, kind) if kind else None
