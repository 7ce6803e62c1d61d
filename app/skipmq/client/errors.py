"""The error that the caller can correct, and checks of what it passes.

The text is one sentence that names the remedy.
"""

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from skipmq.protocol.message import forbidden_character

# Errors of the functions whose text names the remedy.
_REFUSED = {"SQ006", "SQ007", "SQ008", "SQ009", "SQ011", "SQ012", "SQ014"}
# In a project of Django its migrations install the schema.
_MIGRATE = "`skipmq migrate` (with skipmq.django: `manage.py migrate`)"


class ClientError(Exception):
    """A call that cannot work as it is; the text names what to change.

    `sqlstate` is PostgreSQL's, where the database refused it.
    """

    def __init__(self, text: str, sqlstate: str | None = None) -> None:
        super().__init__(text)
        self.sqlstate = sqlstate


def sqlstate(error: BaseException) -> str | None:
    """Return the SQLSTATE of an error of any driver, however a library wrapped it."""
    for each in _causes(error):
        if isinstance(each, UnicodeEncodeError):  # Of a driver, which sends nothing then.
            return "22P05"
        for name in ("sqlstate", "pgcode"):
            if isinstance(found := getattr(each, name, None), str):
                return found
    return None


def explained(
    error: BaseException, queue: str, account: str | None, region: str | None
) -> ClientError | None:
    """Return what the caller of a function on a queue can correct; None for any other error.

    Serialization failures and deadlocks are others: code that retries transactions catches them.
    """
    state = sqlstate(error)
    text = _text(error)
    match state:
        case "SQ001":
            hint = _hint(error)
            if hint is None or "create_queue" in hint:
                options = "".join(
                    f" --{name} {value}"
                    for name, value in (("account", account), ("region", region))
                    if value is not None
                )
                hint = f"create it with `skipmq queue create {queue}{options}`"
            text = f"{text}: {hint}"
        case "3F000":
            text = (
                "this database has no schema of SkipMQ: connect to the broker's database, or"
                f" install it here with {_MIGRATE}"
            )
        case "42883":
            text = f"the schema of SkipMQ here is of another release: run {_MIGRATE} ({text})"
        case "42501" if "skipmq sql grant" not in text:
            text = (
                f"this role may not use SkipMQ ({text}): the owner of the schema grants it by"
                f" `skipmq sql grant ROLE --send {queue} --receive {queue}`"
            )
        case "42501":
            pass
        case "25006":
            text = "this connection only reads: connect to the primary, with writes allowed"
        case "22P05":
            text = f"this connection has another client_encoding than UTF8 ({text}): set it so"
        case _ if state not in _REFUSED:
            return None
    return ClientError(text, state)


def check_text(what: str, value: Any) -> None:
    """Raise ClientError for what is no text, or has characters that no message can have."""
    if not isinstance(value, str):
        raise ClientError(f"{what} is {value!r}: write a text")
    if (found := forbidden_character(value)) is not None:
        raise ClientError(
            f"Invalid characters found: {what} has {found!r}, which no message can have: leave it"
            " out, or send bytes"
        )


def check_seconds(name: str, value: Any, minimum: float = 0) -> None:
    """Raise ClientError for what is no number of seconds of at least `minimum`."""
    _check_timedelta(name, value)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or value < minimum:
        raise ClientError(f"{name}={value!r} is no number of seconds: write one such as 5")


def check_count(name: str, value: Any, minimum: int) -> None:
    """Raise ClientError for what is no whole number of at least `minimum`."""
    _check_timedelta(name, value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ClientError(f"{name}={value!r} is no whole number: write {minimum} or more")
    if value < minimum:
        raise ClientError(f"{name}={value} is too little: {minimum} is the least")


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "orig", None) or error.__cause__


def _hint(error: BaseException) -> str | None:
    *_, innermost = _causes(error)
    found = getattr(getattr(innermost, "diag", innermost), "message_hint", None)
    return found or getattr(innermost, "hint", None)


def _text(error: BaseException) -> str:
    """Return the error text of the server, without the context that drivers add."""
    *_, innermost = _causes(error)
    diagnostic = getattr(innermost, "diag", None)
    return getattr(diagnostic, "message_primary", None) or str(innermost).partition("\n")[0]


def _check_timedelta(name: str, value: Any) -> None:
    if isinstance(value, timedelta):
        raise ClientError(f"{name}={value!r} is in seconds: write {value.total_seconds():.0f}")
