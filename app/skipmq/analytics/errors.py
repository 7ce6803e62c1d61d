"""What analytics refuses to do. Needs no PySpark."""


class AnalyticsError(Exception):
    """A command on the history cannot be carried out; the message says why and what to do."""


class LakeError(AnalyticsError):
    """A lake cannot be read or written as it is."""


class ConflictError(LakeError):
    """Somebody else has written to a lake since it was opened."""

    def __init__(self) -> None:
        super().__init__(
            "somebody else has written to the lake meanwhile: nothing has been changed; run it"
            " again"
        )


class ReplayError(AnalyticsError):
    """A replay cannot be done."""


class AuditError(AnalyticsError):
    """A log of sends cannot be read; the message says which lines."""


class EngineError(AnalyticsError):
    """DuckDB is not known to compute something as Spark does; what that is."""

    def __init__(self, what: str) -> None:
        super().__init__(f"DuckDB does not compute {what} as Spark does: --engine spark")
