"""Requests that botocore has signed, as they arrive at a node."""

from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any
from urllib.parse import unquote, urlsplit

from botocore.auth import SigV4Auth, SigV4QueryAuth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from msgspec.structs import replace

from skipmq.auth.keys import AccessKey, digest
from skipmq.auth.policy import policy_of, rights_for
from skipmq.auth.sigv4 import verify
from skipmq.protocol.call import Request

ADMIN = policy_of(rights_for("admin"), "123456789012")
KEY = AccessKey(
    "AKIAIOSFODNN7EXAMPLE",
    "123456789012",
    "tests",
    ADMIN,
    "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
)
SESSION = AccessKey(
    "ASIAIOSFODNN7EXAMPLE",
    "123456789012",
    "tests",
    ADMIN,
    "temporary",
    digest("a token"),
    expires_at=9e9,
)
KEYS = {key.id: key for key in (KEY, SESSION)}
HOST = "sqs.example.com:9324"
URL = f"http://{HOST}"
JSON_HEADERS = {
    "Content-Type": "application/x-amz-json-1.0",
    "X-Amz-Target": "AmazonSQS.SendMessage",
}
FORM_HEADERS = {"Content-Type": "application/x-www-form-urlencoded; charset=utf-8"}


class UrlSigner(SigV4QueryAuth):
    """Signs the body as well, which botocore would move into the URL."""

    body = b""

    def payload(self, request: AWSRequest) -> str:
        del request
        return sha256(self.body).hexdigest()


def signed(
    method: str = "POST",
    url: str = f"{URL}/",
    body: bytes = b"{}",
    *,
    headers: Mapping[str, str] = JSON_HEADERS,
    key: AccessKey = KEY,
    token: str | None = None,
    region: str = "us-east-1",
    service: str = "sqs",
    seconds: int = 0,
) -> Request:
    """Return a request that is signed in its header, or in its URL for so many seconds."""
    credentials = Credentials(key.id, key.secret, token)
    data = b"" if seconds else body
    unsigned = AWSRequest(method=method, url=url, data=data, headers=dict(headers))
    if seconds:
        signer = UrlSigner(credentials, service, region, expires=seconds)
        signer.body = body
        signer.add_auth(unsigned)
    else:
        SigV4Auth(credentials, service, region).add_auth(unsigned)
    sent = unsigned.prepare()
    parts = urlsplit(sent.url)
    found = {name.lower(): _text(value) for name, value in sent.headers.items()}
    return Request(
        method=method,
        path=unquote(parts.path) or "/",
        headers={"host": parts.netloc} | found,
        query=parts.query,
        body=body,
        base_url=URL,
        request_id="a request",
    )


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value


def presigned(url: str = f"{URL}/?Action=ListQueues&Version=2012-11-05", **options: Any) -> Request:
    """Return a GET of a presigned URL."""
    return signed("GET", url, b"", **{"headers": {}, "seconds": 60} | options)


def changed(request: Request, **parts: Any) -> Request:
    """Return a request with some of its parts changed; a header that becomes None is removed."""
    headers = dict(request.headers.items()) | parts.pop("headers", {})
    kept = {name: value for name, value in headers.items() if value is not None}
    return replace(request, headers=kept, **parts)


def now() -> float:
    """Return the time by which botocore signs."""
    return datetime.now(UTC).timestamp()  # noqa: TID251 - the clients have no other clock.


def accepted(request: Request, **options: Any) -> tuple[str, str]:
    """Return the account and the region of a request that is to be accepted."""
    key, region = verify(request, KEYS, **{"now": now()} | options)
    return key.account, region
