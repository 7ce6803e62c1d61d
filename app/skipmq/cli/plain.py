"""Answers of actions as commands print them in JSON: keys in snake_case, numbers as numbers."""

import json
import re
from collections.abc import Mapping
from typing import Any

from skipmq.protocol.queue_attributes import DOCUMENTS

# Maps whose keys the user chose.
_USERS = {"MessageAttributes", "Tags"}
# Texts of SQS that are numbers or booleans.
_NUMBER = re.compile(
    "Approximate.+|.+Timestamp|.+Seconds|.+Period|VisibilityTimeout|MaximumMessageSize"
)
_BOOLEANS = {"FifoQueue", "ContentBasedDeduplication", "SqsManagedSseEnabled"}
_BOUNDARY = re.compile("(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def plain(answer: Any) -> Any:
    """Return an answer with keys in snake_case; documents are objects, which keep their own."""
    if isinstance(answer, Mapping):
        return {snake(key): _member(key, value) for key, value in answer.items()}
    return [plain(each) for each in answer] if isinstance(answer, list) else answer


def snake(name: str) -> str:
    """Return a name of SQS in snake_case: `md5_of_body` for MD5OfBody."""
    return _BOUNDARY.sub("_", name).lower()


def _member(name: str, value: Any) -> Any:
    if name in _USERS and isinstance(value, Mapping):
        return {key: plain(each) for key, each in value.items()}
    if not isinstance(value, str):
        return plain(value)
    if name in DOCUMENTS:
        return json.loads(value)
    if name in _BOOLEANS:
        return value == "true"
    return int(value) if _NUMBER.fullmatch(name) and value.isdecimal() else value
