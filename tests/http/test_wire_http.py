"""What HTTP itself can bring: methods, paths, bodies of any length, headers."""

from collections.abc import Iterator
from http.client import HTTPConnection
from typing import Any

import pytest

from support.http import ACCOUNT, NodeProcess
from support.wire import FORM, exchange, spoken, target, told

TOO_LONG = 8 * 1_048_576 + 1
SEND = b"Action=SendMessage&MessageBody=hello"
# Requests that send a message, on either wire.
REQUESTS = {
    "json": (target("SendMessage"), b'{"MessageBody": "hello"}'),
    "query": (FORM, SEND),
}


def bodies(sqs: Any, queue: str) -> list[str]:
    answer = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)
    return [message["Body"] for message in answer.get("Messages", [])]


def pieces(length: int) -> Iterator[bytes]:
    for start in range(0, length, 65_536):
        yield b"x" * min(65_536, length - start)


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_method_that_sqs_has_not_is_told_and_does_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str, wire: str, method: str
) -> None:
    headers, body = REQUESTS[wire]

    answer = exchange(broker.port, body, headers, path=f"/{ACCOUNT}/{name}", method=method)

    assert told(answer) == "UnknownOperationException"
    assert "GET and POST" in answer.body
    assert (answer.status, answer.headers["Allow"]) == (405, "GET, POST")
    assert ("json" in answer.headers["Content-Type"]) == (wire == "json")
    assert bodies(sqs, queue) == []


def test_method_that_is_none_is_refused_and_does_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    answer = exchange(broker.port, SEND, FORM, path=f"/{ACCOUNT}/{name}", method="BREW")

    assert answer.status in (405, 501)  # Not the node's own HTTP: RFC 9110, section 9.1.
    assert bodies(sqs, queue) == []


def test_head_is_refused_without_a_body_and_does_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    path = f"/{ACCOUNT}/{name}?{SEND.decode()}"

    answer = exchange(broker.port, path=path, method="HEAD")

    assert (answer.status, answer.headers["Allow"], answer.body) == (405, "GET, POST", "")
    assert bodies(sqs, queue) == []


@pytest.mark.parametrize("path", ["/health", "/health/x", "/metrics/x"])
def test_path_that_is_nowhere_is_told_on_its_wire(
    broker: NodeProcess, wire: str, path: str
) -> None:
    headers, body = REQUESTS[wire]

    answer = exchange(broker.port, body, headers, path=path)

    assert told(answer) == "UnknownOperationException"
    assert ("json" in answer.headers["Content-Type"]) == (wire == "json")


@pytest.mark.parametrize("path", ["/a", "/a/b/c", "/a//b", "/%2e%2e", "/%ff", "/metric"])
def test_path_that_names_no_queue_stands_in_for_none(
    broker: NodeProcess, wire: str, path: str
) -> None:
    headers, body = REQUESTS[wire]

    answer = exchange(broker.port, body, headers, path=path)

    assert told(answer).startswith("Missing")
    assert ("json" in answer.headers["Content-Type"]) == (wire == "json")


@pytest.mark.parametrize(
    "path", ["/%00/%00", "/a/%ff", f"/{ACCOUNT}/%F0%9F%98%80", f"/{ACCOUNT}/;"]
)
def test_path_of_a_queue_that_cannot_be_is_told(broker: NodeProcess, wire: str, path: str) -> None:
    headers, body = REQUESTS[wire]

    answer = exchange(broker.port, body, headers, path=path)

    assert told(answer).endswith("QueueDoesNotExist" if wire == "json" else "NonExistentQueue")


@pytest.mark.parametrize("body", [b"x" * TOO_LONG, "chunked"], ids=["whole", "chunked"])
@pytest.mark.parametrize("where", [("POST", "/"), ("PUT", "/"), ("POST", "/a/b/c")])
def test_huge_body_is_heard_out_and_refused(
    broker: NodeProcess, wire: str, body: bytes | str, where: tuple[str, str]
) -> None:
    method, path = where
    content = pieces(TOO_LONG) if isinstance(body, str) else body

    answer = exchange(broker.port, content, REQUESTS[wire][0], method=method, path=path)

    if method == "POST":
        assert "Message must be shorter than 1048576 bytes." in answer.body
        assert told(answer).startswith("InvalidParameterValue")
    else:
        assert told(answer) == "UnknownOperationException"


def test_chunked_request_is_read_like_any_other(
    broker: NodeProcess, sqs: Any, queue: str, name: str, wire: str
) -> None:
    headers, body = REQUESTS[wire]
    single = (body[n : n + 1] for n in range(len(body)))

    answer = exchange(broker.port, single, headers, path=f"/{ACCOUNT}/{name}")

    assert answer.status == 200
    assert bodies(sqs, queue) == ["hello"]


@pytest.mark.parametrize(
    ("headers", "body"), [*REQUESTS.values(), (target("PurgeQueue"), b"{}")], ids=str
)
def test_request_that_breaks_off_does_nothing(
    broker: NodeProcess, sqs: Any, queue: str, name: str, headers: dict[str, str], body: bytes
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="waiting")
    lines = [f"POST /{ACCOUNT}/{name} HTTP/1.1", "Host: localhost", "Connection: close"]
    lines += [f"{key}: {value}" for key, value in headers.items()]
    lines += [f"Content-Length: {len(body) + 1}", "", ""]

    answer = spoken(broker.port, "\r\n".join(lines).encode() + body)

    assert told(answer) == "SerializationException"
    assert bodies(sqs, queue) == ["waiting"]


def test_connection_goes_on_after_requests_that_were_refused(broker: NodeProcess) -> None:
    connection = HTTPConnection("127.0.0.1", broker.port, timeout=40)
    try:
        statuses = []
        for method, path, headers, body in (
            ("PUT", "/", FORM, b"x" * 1_000_000),
            ("POST", "/a/b/c", FORM, b"x" * 1_000_000),
            ("POST", "/", FORM, b"x" * TOO_LONG),
            ("POST", "/", target("ListQueues"), b"["),
            ("POST", "/", target("ListQueues"), b"{}"),
        ):
            connection.request(method, path, body, headers)
            socket = connection.sock
            response = connection.getresponse()
            response.read()
            statuses.append(response.status)
            assert connection.sock is socket
    finally:
        connection.close()

    assert statuses == [405, 404, 400, 400, 200]


def written(start: str, *headers: str, body: bytes = SEND) -> bytes:
    """Return a request with these header lines and no others but that it is the last."""
    lines = [start, *headers, "Connection: close", "", ""]
    return "\r\n".join(lines).encode() + body


@pytest.mark.parametrize(
    "hosts",
    [(), ("Host: a", "Host: b"), ("Host: a", "Host: a")],
    ids=["none", "two", "the same twice"],
)
def test_request_of_http_1_1_without_one_host_is_refused(
    broker: NodeProcess, sqs: Any, queue: str, name: str, wire: str, hosts: tuple[str, ...]
) -> None:
    headers, body = REQUESTS[wire]
    lines = [*hosts, *(f"{key}: {value}" for key, value in headers.items())]

    lines.append(f"Content-Length: {len(body)}")
    request = written(f"POST /{ACCOUNT}/{name} HTTP/1.1", *lines, body=body)

    answer = spoken(broker.port, request, ends=False)

    assert answer.status == 400
    assert bodies(sqs, queue) == []


def test_request_of_http_1_0_needs_no_host(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    request = written(f"POST /{ACCOUNT}/{name} HTTP/1.0", f"Content-Length: {len(SEND)}")

    answer = spoken(broker.port, request, ends=False)

    assert answer.status == 200
    assert bodies(sqs, queue) == ["hello"]


CHUNKED = f"{len(SEND):x}\r\n".encode() + SEND + b"\r\n0\r\n\r\n"


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (("Content-Length: 3", f"Content-Length: {len(SEND)}"), SEND),
        ((f"Content-Length: {len(SEND)}, 3",), SEND),
        (("Content-Length: +36",), SEND),
        (("Content-Length : 36",), SEND),
        (("Transfer-Encoding: chunked, identity",), CHUNKED),
        (("Transfer-Encoding: identity",), SEND),
        (("X: a\r b", f"Content-Length: {len(SEND)}"), SEND),
        # The length is for a body that is not chunked.
        ((f"Content-Length: {len(SEND)}", "Transfer-Encoding: chunked"), SEND),
    ],
    ids=lambda value: str(value)[:60],
)
def test_body_of_unclear_length_is_refused(
    broker: NodeProcess, sqs: Any, queue: str, name: str, headers: tuple[str, ...], body: bytes
) -> None:
    request = written(f"POST /{ACCOUNT}/{name} HTTP/1.1", "Host: a", *headers, body=body)

    answer = spoken(broker.port, request, ends=False)

    assert answer.status in (400, 501)
    assert bodies(sqs, queue) == []


def test_body_with_a_length_and_chunks_is_its_chunks_or_refused(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    """RFC 9112, section 6.3: the chunks win. Nobody must believe the length instead."""
    inner = CHUNKED + SEND.replace(b"hello", b"smuggled")
    request = written(
        f"POST /{ACCOUNT}/{name} HTTP/1.1",
        "Host: a",
        f"Content-Length: {len(inner)}",
        "Transfer-Encoding: chunked",
        body=inner,
    )

    answer = spoken(broker.port, request, ends=False)

    assert bodies(sqs, queue) == (["hello"] if answer.status == 200 else [])


def test_lines_that_end_in_a_bare_line_feed_are_read_as_lines_or_refused(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    """RFC 9112, section 2.2, lets a server take them; gunicorn does not."""
    request = written(f"POST /{ACCOUNT}/{name} HTTP/1.1", "Host: a", f"Content-Length: {len(SEND)}")

    answer = spoken(broker.port, request.replace(b"\r\n", b"\n"), ends=False)

    assert bodies(sqs, queue) == (["hello"] if answer.status == 200 else [])


def test_chunks_that_end_in_a_bare_line_feed_are_refused(
    broker: NodeProcess, sqs: Any, queue: str, name: str
) -> None:
    request = written(
        f"POST /{ACCOUNT}/{name} HTTP/1.1",
        "Host: a",
        "Transfer-Encoding: chunked",
        # gunicorn reads up to the end of a line.
        body=CHUNKED.replace(b"\r\n", b"\n") + b"\r\n",
    )

    answer = spoken(broker.port, request, ends=False)

    assert answer.status in (400, 404)  # gunicorn leaves nothing of such a body.
    assert bodies(sqs, queue) == []


TRACE = "Root=1-67891233-abcdef012345678912345678"


@pytest.mark.parametrize("given", [None, "Root=1-5759e988-bd862e3fe1be46a994272793"])
def test_trace_header_of_the_request_is_the_messages_unless_it_has_its_own(
    broker: NodeProcess, sqs: Any, queue: str, name: str, wire: str, given: str | None
) -> None:
    headers, body = REQUESTS[wire]
    if given and wire == "json":
        attribute = f'{{"AWSTraceHeader": {{"DataType": "String", "StringValue": "{given}"}}}}'
        body = body.replace(b"}", f', "MessageSystemAttributes": {attribute}}}'.encode())
    elif given:
        field = "&MessageSystemAttribute.1"
        body += f"{field}.Name=AWSTraceHeader{field}.Value.DataType=String".encode()
        body += f"{field}.Value.StringValue={given}".encode()

    answer = exchange(
        broker.port, body, headers | {"X-Amzn-Trace-Id": TRACE}, path=f"/{ACCOUNT}/{name}"
    )

    (message,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["AWSTraceHeader"])["Messages"]
    assert message["Attributes"] == {"AWSTraceHeader": given or TRACE}
    assert ("MD5OfMessageSystemAttributes" in answer.body) == (given is not None)


@pytest.mark.parametrize(
    "header", ["x" * 1025, "Root=1-\x80", "Root=\xe9", "Root=1\tParent=2"], ids=lambda h: h[:20]
)
def test_trace_header_of_the_request_that_no_tracer_writes_is_passed_over(
    broker: NodeProcess, sqs: Any, queue: str, name: str, wire: str, header: str
) -> None:
    headers, body = REQUESTS[wire]
    # As is W3C's header by a node that makes no traces itself.
    w3c = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    traced = headers | {"X-Amzn-Trace-Id": header, "traceparent": w3c}

    answer = exchange(broker.port, body, traced, path=f"/{ACCOUNT}/{name}")

    (message,) = sqs.receive_message(QueueUrl=queue, AttributeNames=["All"])["Messages"]
    assert answer.status == 200
    assert message["Body"] == "hello"
    assert "AWSTraceHeader" not in message["Attributes"]
