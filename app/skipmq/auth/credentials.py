"""Identify the account of a request from its credential, without checking the signature.

Source: AWS General Reference, "Elements of an AWS API request signature". A 12-digit access key
ID is an account; any other key maps to the node's account. The region is that of the credential
if it has the form of AWS's regions; otherwise, as for clients of ElasticMQ, it is the node's.
"""

import re
from functools import lru_cache
from urllib.parse import unquote

from skipmq.protocol import limits
from skipmq.protocol.identity import Identity

_HEADER, _PARAMETER = "Credential=", "x-amz-credential="
_SCOPE_PARTS = 4
_REGION = re.compile("[a-z]{2,4}(-[a-z]{3,12}){1,2}-[0-9]{1,2}")
# No access key's credential is longer; caching longer ones would exhaust memory.
_MAXIMUM_LENGTH = 256


def identify(
    authorization: str | None,
    query: str,
    region: str = limits.DEFAULT_REGION,
    account: str = limits.DEFAULT_ACCOUNT,
) -> Identity:
    """Return the identity that a request's credential names, or that of the node's `account`.

    The credential is in the Authorization header or in the query string.
    """
    if authorization:
        _, sign, credential = authorization.partition(",")[0].rpartition(_HEADER)
        identity = _parse(credential.partition(" ")[0], region, account) if sign else None
        if identity is not None:
            return identity
    if query:
        for parameter in query.split("&"):
            if parameter[: len(_PARAMETER)].lower() == _PARAMETER:
                credential = parameter[len(_PARAMETER) :]
                return _parse(credential, region, account) or _anonymous(region, account)
    return _anonymous(region, account)


@lru_cache(maxsize=8)
def _anonymous(region: str, account: str) -> Identity:
    return Identity(account, region, account, is_of_any_region=True)


def _parse(credential: str, region: str, account: str) -> Identity | None:
    if len(credential) > _MAXIMUM_LENGTH:
        return None
    return _parse_cached(credential, region, account)


@lru_cache(maxsize=1024)
def _parse_cached(credential: str, region: str, account: str) -> Identity | None:
    """Parse KEY/DAY/REGION/SERVICE/aws4_request, URL-encoded or not."""
    key, *scope = unquote(credential).rsplit("/", _SCOPE_PARTS)
    if len(scope) < _SCOPE_PARTS:
        return None
    day, scope_region, service, end = (part.lower() for part in scope)
    is_scope = day.isdecimal() and service in ("sqs", "sns") and end == "aws4_request"
    if not (key and is_scope and limits.REGION.fullmatch(scope_region)):
        return None
    account = key if limits.ACCOUNT.fullmatch(key) else account
    region = scope_region if _REGION.fullmatch(scope_region) else region
    return Identity(account, region, account, is_of_any_region=True)
