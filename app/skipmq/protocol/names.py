"""What a caller may write where a queue is named: its name, its URL or its ARN.

Sources: SQS Developer Guide, "Queue and message identifiers" (URLs); AWS General Reference, "Amazon
Resource Names" and "Amazon Simple Queue Service endpoints" (regions in the hosts of URLs).
"""

import re
from typing import NamedTuple

from skipmq.protocol import limits

_VALID = re.compile(rf"[A-Za-z0-9_-]{{1,{limits.QUEUE_NAME}}}")
_ARN = re.compile(r"arn:aws[a-z-]{0,16}:sqs:([a-z0-9-]{1,64}):([0-9]{12}):([^:/\s]+)")
_URL = re.compile(r"(?:[a-z]+://([^/]*))?(?:/[^/]+)*?/([^/]+)/([^/?#]+)/?", re.IGNORECASE)
_HTTP = re.compile(r"https?://[^/?#\s][^?#\s]*", re.IGNORECASE)
# The hosts of AWS and LocalStack, and of a broker that was given such a name. Without a number at
# its end, as in sqs.example.com, a label is no region.
_HOST = re.compile(
    r"sqs\.([a-z]{2}(?:-[a-z]+)+-[0-9])\..+|([a-z]{2}(?:-[a-z]+)+-[0-9])\.queue\..+", re.IGNORECASE
)
FIFO = ".fifo"
# The part of a URL that stands for the caller's account, as in ElasticMQ's.
_OWN = "queue"
# Characters of a text that an error quotes.
_QUOTED = 80


class QueueNameError(ValueError):
    """A text names no queue; the message is one sentence with the remedy."""


class Named(NamedTuple):
    """A queue's name, with the account and the region if the text names them."""

    name: str
    account: str | None = None
    region: str | None = None


def is_valid(name: str) -> bool:
    """Return whether a queue may have a name, whose suffix `.fifo` counts towards its length."""
    stem = name.removesuffix(FIFO)
    return len(name) <= limits.QUEUE_NAME and _VALID.fullmatch(stem) is not None


def in_arn(text: str) -> Named | None:
    """Return what an ARN names; None if it is not the ARN of a queue."""
    arn = _ARN.fullmatch(text)
    return None if arn is None else Named(arn[3], arn[2], arn[1])


def in_url(text: str) -> Named | None:
    """Return what the last two parts of a URL, or of its path, name; None if there are none."""
    url = _URL.fullmatch(text)
    if url is None:
        return None
    host = _HOST.fullmatch((url[1] or "").rpartition("@")[2])
    region = (host[1] or host[2]).lower() if host else None
    return Named(url[3], None if url[2] == _OWN else url[2], region)


def parse(text: str) -> Named:
    """Return what a name, a URL or an ARN names; raise QueueNameError.

    The characters of the name itself are not checked. A URL names a region only by its host:
    `sqs.REGION.…` or `REGION.queue.…`.
    """
    if text.startswith("arn:"):
        if (named := in_arn(text)) is None:
            raise QueueNameError(
                f"{_quoted(text)} is not the ARN of a queue: write arn:aws:sqs:REGION:ACCOUNT:NAME"
            )
        return named
    if "/" not in text and ":" not in text:
        return Named(text)
    named = in_url(text) if _HTTP.fullmatch(text) else None
    if named is None or not (named.account is None or limits.ACCOUNT.fullmatch(named.account)):
        raise QueueNameError(
            f"{_quoted(text)} is not a queue: write its name, its URL http://HOST/ACCOUNT/NAME, or"
            " its ARN"
        )
    return named


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")
