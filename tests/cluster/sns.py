"""Requests of the wire of SNS, written by hand."""

from collections.abc import Mapping
from urllib.parse import urlencode

from bench.wire import AUTHORIZATION
from support.http import ACCOUNT

HEADS = {
    "Content-Type": "application/x-www-form-urlencoded",
    "Authorization": AUTHORIZATION.replace("/sqs/", "/sns/"),
}


def arn(topic: str) -> str:
    return f"arn:aws:sns:us-east-1:{ACCOUNT}:{topic}"


def form(
    action: str, entries: Mapping[str, Mapping[str, str]] | None = None, **parameters: str
) -> bytes:
    """Return the body of a request; entries are numbered maps by their prefix, of texts."""
    found = {"Action": action, "Version": "2010-03-31", **parameters}
    for prefix, pairs in (entries or {}).items():
        for place, (key, value) in enumerate(pairs.items(), 1):
            found |= {f"{prefix}.entry.{place}.key": key, f"{prefix}.entry.{place}.value": value}
    return urlencode(found).encode()
