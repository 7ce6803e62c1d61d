"""Headers of a request to SQS, signed with the keys of AWS's variables where there are some.

Source: AWS Identity and Access Management User Guide, "Create a signed AWS API request".
"""

import hmac
import os
from collections.abc import Mapping
from datetime import UTC, datetime
from hashlib import sha256
from typing import NamedTuple

from skipmq.protocol import limits

_SIGNED = "content-type;host;x-amz-date;x-amz-target"
_SIGNED_WITH_TOKEN = "content-type;host;x-amz-date;x-amz-security-token;x-amz-target"  # noqa: S105 - names.


def has_key() -> bool:
    """Return whether there is a key to sign by."""
    return all(_key()[:2])


def default_region() -> str:
    """Return the region of AWS_REGION or AWS_DEFAULT_REGION, or else us-east-1."""
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    return named or limits.DEFAULT_REGION


class Key(NamedTuple):
    """An access key to sign by; nothing is signed where a part of it is empty."""

    id: str | None
    secret: str | None
    token: str | None = None


def headers(
    host: str, target: str, body: bytes, region: str | None = None, key: Key | None = None
) -> Mapping[str, str]:
    """Return the headers of a request with a JSON body to a target: `AmazonSQS.NAME`.

    Without a key that of AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN is used.
    """
    given = {
        "content-type": "application/x-amz-json-1.0",
        "host": host,
        "x-amz-target": target,
    }
    key = key or _key()
    if not key.id or not key.secret:
        return given
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{moment[:8]}/{region or default_region()}/sqs/aws4_request"
    given["x-amz-date"] = moment
    names = _SIGNED
    if key.token:
        given["x-amz-security-token"], names = key.token, _SIGNED_WITH_TOKEN
    lines = "".join(f"{name}:{given[name]}\n" for name in names.split(";"))
    request = f"POST\n/\n\n{lines}\n{names}\n{sha256(body).hexdigest()}"
    text = f"AWS4-HMAC-SHA256\n{moment}\n{scope}\n{sha256(request.encode()).hexdigest()}"
    signing = f"AWS4{key.secret}".encode()
    for part in scope.split("/"):
        signing = hmac.digest(signing, part.encode(), "sha256")
    given["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={key.id}/{scope}, SignedHeaders={names},"
        f" Signature={hmac.digest(signing, text.encode(), 'sha256').hex()}"
    )
    return given


def _key() -> Key:
    return Key(
        os.environ.get("AWS_ACCESS_KEY_ID"),
        os.environ.get("AWS_SECRET_ACCESS_KEY"),
        os.environ.get("AWS_SESSION_TOKEN"),
    )
