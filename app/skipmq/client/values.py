"""What a caller passes as texts and times, checked before the database sees it."""

import math
from datetime import timedelta
from typing import Any

from skipmq import limits
from skipmq.client.errors import ClientError


def check_text(what: str, value: Any) -> None:
    """Raise ClientError for what is no text, or has characters that no message can have."""
    if not isinstance(value, str):
        raise ClientError(f"{what} is {value!r}: write a text")
    if (found := limits.forbidden_character(value)) is not None:
        raise ClientError(
            f"Invalid characters found: {what} has {found!r}, which no message can have: leave it"
            " out, or send bytes"
        )


def check_seconds(name: str, value: Any, least: float = 0) -> None:
    """Raise ClientError for what is no number of seconds from `least` on."""
    _check_timedelta(name, value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < least:
        raise ClientError(f"{name}={value!r} is no number of seconds: write one such as 5")


def check_count(name: str, value: Any, least: int) -> None:
    """Raise ClientError for what is no whole number from `least` on."""
    _check_timedelta(name, value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ClientError(f"{name}={value!r} is no whole number: write {least} or more")
    if value < least:
        raise ClientError(f"{name}={value} is too little: {least} is the least")


def _check_timedelta(name: str, value: Any) -> None:
    if isinstance(value, timedelta):
        raise ClientError(f"{name}={value!r} is in seconds: write {value.total_seconds():.0f}")
