"""Requests as they are written, and the form that every error has."""

import json
import re
import socket
from collections.abc import Iterable, Mapping
from http.client import HTTPConnection, HTTPResponse
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from skipmq.protocol import shapes
from skipmq.protocol.call import Call, Request
from support.http import Answer

JSON = {"Content-Type": "application/x-amz-json-1.0"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
_XML = {"sqs": "http://queue.amazonaws.com/doc/2012-11-05/"}


def target(action: str) -> dict[str, str]:
    """Return the headers of a JSON request."""
    return {**JSON, "X-Amz-Target": action if "." in action else f"AmazonSQS.{action}"}


def request(action: str, **parameters: Any) -> Request:
    """Return a JSON request as a door hands it to the broker."""
    return Request(
        method="POST",
        path="/",
        headers={name.lower(): value for name, value in target(action).items()},
        query="",
        body=json.dumps(parameters).encode(),
        base_url="http://localhost:9324",
        request_id=action,
    )


def plain(call: Call) -> dict[str, Any]:
    """Return the parameters of a call as a dictionary of those that were sent."""
    parameters: dict[str, Any] = msgspec.to_builtins(call.parameters, builtin_types=(bytes,))
    return parameters


def answer_of(action: str, result: dict[str, Any] | None) -> msgspec.Struct | None:
    """Return the answer of an action with these members."""
    shape = shapes.ACTIONS[action].output
    return None if shape is None else msgspec.convert(result or {}, shape.struct)


def exchange(
    port: int,
    body: bytes | Iterable[bytes] = b"",
    headers: Mapping[str, str] | None = None,
    *,
    path: str = "/",
    method: str = "POST",
) -> Answer:
    """Send a request with no header but these; a body in parts goes chunked."""
    connection = HTTPConnection("127.0.0.1", port, timeout=40)
    try:
        connection.request(method, path, body, dict(headers or {}), encode_chunked=True)
        return read(connection.getresponse())
    finally:
        connection.close()


def spoken(port: int, request: bytes, *, ends: bool = True) -> Answer:
    """Write bytes, end the writing side unless told otherwise, and read the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=40) as connection:
        connection.sendall(request)
        if ends:
            connection.shutdown(socket.SHUT_WR)
        response = HTTPResponse(connection)
        response.begin()
        return read(response)


def told(answer: Answer) -> str:
    """Return the name that an error has on its wire; fail unless it is a whole error of SQS."""
    assert 400 <= answer.status < 500, (answer.status, answer.body)
    assert re.fullmatch(
        r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", answer.headers["x-amzn-RequestId"]
    )
    return (
        _told_in_json(answer) if "json" in answer.headers["Content-Type"] else _told_in_xml(answer)
    )


def _told_in_json(answer: Answer) -> str:
    document = json.loads(answer.body)
    namespace, _, shape = document["__type"].partition("#")

    assert namespace in ("com.amazonaws.sqs", "com.amazon.coral.service")
    assert re.fullmatch(r"[A-Za-z.]+;Sender", answer.headers["x-amzn-query-error"])
    assert set(document) == {"__type", "message"}
    assert document["message"]
    return str(shape)


def _told_in_xml(answer: Answer) -> str:
    document = ET.fromstring(answer.body)  # noqa: S314 - our own node wrote it.
    if document.tag == "UnknownOperationException":
        assert (answer.status, len(document)) == (404, 0)
        return document.tag
    kind, code, message, request = (
        document.findtext(f"sqs:{name}", namespaces=_XML)
        for name in ("Error/sqs:Type", "Error/sqs:Code", "Error/sqs:Message", "RequestId")
    )

    assert answer.headers["Content-Type"] == "text/xml"
    assert kind == "Sender"
    assert message
    assert request == answer.headers["x-amzn-RequestId"]
    return str(code)


def read(response: HTTPResponse) -> Answer:
    """Return an answer with its body."""
    return Answer(response.status, response.headers, response.read())
