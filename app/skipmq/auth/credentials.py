"""Reads the credential of a request, signed in its header or in its query string.

Source: AWS General Reference, "Elements of an AWS API request signature". Without signature checks
a 12-digit access key is the account it names, and any other key the default account; the region of
the credential is passed over, since no queue URL names it: the node's own is that of all.
"""

import re
from functools import lru_cache
from urllib.parse import unquote

from skipmq import limits
from skipmq.model import Identity

_HEADER, _PARAMETER = "Credential=", "x-amz-credential="
_REGION = re.compile("[a-z0-9-]{1,32}")
_SCOPE_PARTS = 4
# A longer one is no access key's; a cache of them would fill the memory.
_LONGEST = 256


def identify(
    authorization: str | None, query: str, region: str = limits.DEFAULT_REGION
) -> Identity:
    """Return the account that a request's credential names, else the default one, in a region."""
    if authorization:
        # What follows the credential differs in every request.
        _, sign, credential = authorization.partition(",")[0].rpartition(_HEADER)
        found = _of(credential.partition(" ")[0], region) if sign else None
        if found is not None:
            return found
    if query:
        for parameter in query.split("&"):
            if parameter[: len(_PARAMETER)].lower() == _PARAMETER:
                return _of(parameter[len(_PARAMETER) :], region) or _anonymous(region)
    return _anonymous(region)


@lru_cache(maxsize=8)
def _anonymous(region: str) -> Identity:
    return Identity(region=region)


def _of(credential: str, region: str) -> Identity | None:
    return _kept(credential, region) if len(credential) <= _LONGEST else None


@lru_cache(maxsize=1024)
def _kept(credential: str, region: str) -> Identity | None:
    """Return whom KEY/DAY/REGION/sqs/aws4_request names, escaped as in a URL or not."""
    key, *scope = unquote(credential).rsplit("/", _SCOPE_PARTS)
    if len(scope) < _SCOPE_PARTS:
        return None
    day, of_scope, service, end = (part.lower() for part in scope)
    is_scope = day.isdecimal() and (service, end) == ("sqs", "aws4_request")
    if not (key and is_scope and _REGION.fullmatch(of_scope)):
        return None
    account = key if limits.ACCOUNT.fullmatch(key) else limits.DEFAULT_ACCOUNT
    return Identity(account, region, account)
