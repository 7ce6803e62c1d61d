"""Reads the credential of a request, signed in its header or in its query string.

Source: AWS General Reference, "Elements of an AWS API request signature". Without signature checks
a 12-digit access key is the account it names, and any other key the default account.
"""

import re
from urllib.parse import unquote

from skipmq import limits
from skipmq.model import Identity

_CREDENTIAL = re.compile(
    r"(?:Credential=|[?&]X-Amz-Credential=)"
    r"([^/,&\s]+)(?:/|%2F)\d+(?:/|%2F)([a-z0-9-]{1,32})(?:/|%2F)sqs(?:/|%2F)aws4_request",
    re.IGNORECASE,
)
_ACCOUNT = re.compile(r"[0-9]{12}")
ANONYMOUS = Identity()


def identify(authorization: str | None, query: str) -> Identity:
    """Return whom a request's credential names; the default identity when it names nobody."""
    match = _CREDENTIAL.search(authorization or "") or _CREDENTIAL.search("?" + query)
    if match is None:
        return ANONYMOUS
    key, region = unquote(match[1]), match[2].lower()
    account = key if _ACCOUNT.fullmatch(key) else limits.DEFAULT_ACCOUNT
    return Identity(account, region, account)
