"""What a caller may write where a queue is named: its name, its URL or its ARN.

Sources: SQS Developer Guide, "Queue and message identifiers" (URLs); AWS General Reference, "Amazon
Resource Names" and "Amazon Simple Queue Service endpoints" (regions in the hosts of URLs).
"""

import re
from typing import NamedTuple

from skipmq import limits

_ARN = re.compile(r"arn:[a-z-]+:sqs:([a-z0-9-]+):([0-9]{12}):([^:/\s]+)")
_URL = re.compile(r"https?://([^/?#\s]+)(?:/[^/?#\s]+)*?/([^/?#\s]+)/([^/?#\s]+)/?", re.IGNORECASE)
# The hosts of AWS and LocalStack, and of a broker that was given such a name. Without a number at
# its end, as in sqs.example.com, a label is no region.
_HOST = re.compile(
    r"sqs\.([a-z]{2}(?:-[a-z]+)+-[0-9])\..+|([a-z]{2}(?:-[a-z]+)+-[0-9])\.queue\..+", re.IGNORECASE
)
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


def parse(text: str) -> Named:
    """Return what a name, a URL or an ARN names; raise QueueNameError.

    The characters of the name itself are not checked. A URL names a region only by its host:
    `sqs.REGION.…` or `REGION.queue.…`.
    """
    if text.startswith("arn:"):
        if (arn := _ARN.fullmatch(text)) is None:
            raise QueueNameError(
                f"{_quoted(text)} is not the ARN of a queue: write arn:aws:sqs:REGION:ACCOUNT:NAME"
            )
        return Named(arn[3], arn[2], arn[1])
    if "/" not in text and ":" not in text:
        return Named(text)
    url = _URL.fullmatch(text)
    if url is None or not (url[2] == _OWN or limits.ACCOUNT.fullmatch(url[2])):
        raise QueueNameError(
            f"{_quoted(text)} is not a queue: write its name, its URL http://HOST/ACCOUNT/NAME, or"
            " its ARN"
        )
    host = _HOST.fullmatch(url[1].rpartition("@")[2])
    region = (host[1] or host[2]).lower() if host else None
    return Named(url[3], None if url[2] == _OWN else url[2], region)


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _QUOTED else f"{text[:_QUOTED]}…")
