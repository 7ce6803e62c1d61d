"""Requests in AWS JSON, written by hand: an SDK would take more time than what it measures."""

import http.client
import json
import ssl
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

PATIENCE = 40
# More than a node remembers lines of heads: of a client's, no two requests have the same signature.
_SIGNED = 2_000
AUTHORIZATION = (
    "AWS4-HMAC-SHA256 Credential=key/20260101/us-east-1/sqs/aws4_request,"
    " SignedHeaders=host, Signature=0"
)


class Refused(Exception):  # noqa: N818 - what the broker did.
    """A request that was not answered with 200."""


def headers(action: str) -> dict[str, str]:
    return {
        "Content-Type": "application/x-amz-json-1.0",
        "X-Amz-Target": f"AmazonSQS.{action}",
        "Authorization": AUTHORIZATION,
    }


def request(url: str, action: str, **parameters: Any) -> bytes:
    """Return a whole request, to be written to a socket."""
    body = json.dumps(parameters).encode()
    lines = [
        "POST / HTTP/1.1",
        f"Host: {urlsplit(url).netloc}",
        *(f"{name}: {value}" for name, value in headers(action).items()),
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def signed(
    url: str, queue: str, keys: Sequence[Mapping[str, str]], batch: int, size: int
) -> list[str]:
    """Return sends and receives in turn, signed now by keys in turn, as signed.lua reads them."""
    signers = [
        SigV4Auth(Credentials(key["key"], key["secret"]), "sqs", "us-east-1") for key in keys
    ]
    lines = []
    parameters: dict[str, Any]
    for number in range(_SIGNED):
        text = f"{number} ".ljust(size, "x")
        if number % 2:
            action = "ReceiveMessage"
            parameters = {"MaxNumberOfMessages": batch, "VisibilityTimeout": 1}
        elif batch == 1:
            action, parameters = "SendMessage", {"MessageBody": text}
        else:
            entries = [{"Id": str(each), "MessageBody": text} for each in range(batch)]
            action, parameters = "SendMessageBatch", {"Entries": entries}
        body = json.dumps({"QueueUrl": queue, **parameters})
        plain = {name: value for name, value in headers(action).items() if name != "Authorization"}
        request = AWSRequest("POST", f"{url}/", headers=plain, data=body)
        signers[number // 2 % len(signers)].add_auth(request)
        found = request.headers
        lines.append(f"{action}\t{found['X-Amz-Date']}\t{found['Authorization']}\t{body}")
    return lines


class Client:
    """A client with one connection that is kept."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        if parts.scheme == "https":
            # Whoever measures has made the certificate.
            context = ssl._create_unverified_context()  # noqa: S323, SLF001
            self._connection: http.client.HTTPConnection = http.client.HTTPSConnection(
                parts.netloc, timeout=PATIENCE, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(parts.netloc, timeout=PATIENCE)

    def call(self, action: str, **parameters: Any) -> dict[str, Any]:
        self._connection.request("POST", "/", json.dumps(parameters).encode(), headers(action))
        response = self._connection.getresponse()
        body = response.read()
        if response.status != http.client.OK:
            raise Refused(f"{action}: {response.status} {body[:300].decode(errors='replace')}")
        answer: dict[str, Any] = json.loads(body or b"{}")
        return answer

    def create_queue(self, name: str, attributes: Mapping[str, str] | None = None) -> str:
        """Create a queue; return its URL."""
        url: str = self.call("CreateQueue", QueueName=name, Attributes=dict(attributes or {}))[
            "QueueUrl"
        ]
        return url

    def close(self) -> None:
        self._connection.close()
