"""The error that the caller can correct: one sentence that names the remedy."""

from collections.abc import Iterator

# What the functions refuse with an error text of their own, which says all.
_REFUSED = {"SQ006", "SQ007", "SQ008", "SQ009", "SQ011", "SQ012"}
# In a project of Django its migrations install the schema.
_MIGRATE = "`skipmq migrate` (with skipmq.django: `manage.py migrate`)"


class ClientError(Exception):
    """A call that cannot work as it is; the text says what to change.

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


def _causes(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = getattr(error, "orig", None) or error.__cause__


def _hint(error: BaseException) -> str | None:
    """Return the remedy that the server said, of any driver."""
    *_, innermost = _causes(error)
    found = getattr(getattr(innermost, "diag", innermost), "message_hint", None)
    return found or getattr(innermost, "hint", None)


def _text(error: BaseException) -> str:
    """Return what the server said, without the context that drivers add."""
    *_, innermost = _causes(error)
    diagnostic = getattr(innermost, "diag", None)
    return getattr(diagnostic, "message_primary", None) or str(innermost).partition("\n")[0]
