"""Reads the credential of a request, signed in its header or in its query string.

Source: AWS General Reference, "Elements of an AWS API request signature". Without signature checks
a 12-digit access key is the account it names, and any other key the default account.
"""

import re
from functools import lru_cache
from urllib.parse import unquote

from skipmq import limits
from skipmq.model import Identity

_CREDENTIAL = re.compile(
    r"(?:Credential=|[?&]X-Amz-Credential=)"
    r"([^/,&\s]+)(?:/|%2F)\d+(?:/|%2F)([a-z0-9-]{1,32})(?:/|%2F)sqs(?:/|%2F)aws4_request",
    re.IGNORECASE,
)
ANONYMOUS = Identity()
_LONGEST_KEPT = 1_024


def identify(authorization: str | None, query: str) -> Identity:
    """Return whom a request's credential names; the default identity when it names nobody."""
    if authorization:
        # What follows the credential differs in every request.
        found = _of(authorization.partition(",")[0])
        if found is not None:
            return found
    return (_of("?" + query) if query else None) or ANONYMOUS


def _of(text: str) -> Identity | None:
    # A cache of long texts would fill the memory.
    return _kept(text) if len(text) <= _LONGEST_KEPT else _kept.__wrapped__(text)


@lru_cache(maxsize=1024)
def _kept(text: str) -> Identity | None:
    match = _CREDENTIAL.search(text)
    if match is None:
        return None
    key, region = unquote(match[1]), match[2].lower()
    account = key if limits.ACCOUNT.fullmatch(key) else limits.DEFAULT_ACCOUNT
    return Identity(account, region, account)
