"""Errors of analytics; they can be imported without PySpark."""


def first_line(error: Exception) -> str:
    """Return the reason, after which pyarrow, DuckDB and delta-rs may have a traceback."""
    return str(error).strip().partition("\n")[0]


class AnalyticsError(Exception):
    """An operation on the history failed; the message contains the reason and the remedy."""


class LakeError(AnalyticsError):
    """A lake cannot be read or written."""


class ConflictError(LakeError):
    """Another writer has committed to the lake since it was opened."""

    def __init__(self) -> None:
        super().__init__(
            "another writer has committed to the lake: nothing has been changed; run this again"
        )


class ReplayError(AnalyticsError):
    """A replay cannot be run."""


class SendError(AnalyticsError):
    """Rows cannot be sent as messages."""


class ReconcileError(AnalyticsError):
    """A log of sends cannot be read."""
