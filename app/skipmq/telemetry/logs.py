"""Structured logs on standard error, as text or JSON; they never contain message bodies."""

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any, TextIO

from skipmq.telemetry.terminal import visible

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


class Logger:
    """structlog's logger, imported with the first line, because most commands log none.

    Lines go to standard error as text unless `configure` was called.
    """

    def __init__(self) -> None:
        self._structlog: Any = None
        self._is_silent = False

    @contextmanager
    def silenced(self) -> Iterator[None]:
        """Log nothing in the block, as in a command, which prints what it has to say."""
        before, self._is_silent = self._is_silent, True
        try:
            yield
        finally:
            self._is_silent = before

    def debug(self, event: str, **fields: Any) -> None:
        """Log a line for developers."""
        self._log("debug", event, fields)

    def info(self, event: str, **fields: Any) -> None:
        """Log an ordinary event."""
        self._log("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log what may need attention."""
        self._log("warning", event, fields)

    def error(self, event: str, **fields: Any) -> None:
        """Log a failure."""
        self._log("error", event, fields)

    def exception(self, event: str, **fields: Any) -> None:
        """Log a failure with the traceback of the error that is handled."""
        self._log("exception", event, fields)

    def _log(self, level: str, event: str, fields: dict[str, Any]) -> None:
        if self._is_silent:
            return
        import structlog  # noqa: PLC0415 - as the class says.

        if not structlog.is_configured():
            to_standard_error()
        if self._structlog is None:
            self._structlog = structlog.get_logger()
        getattr(self._structlog, level)(event, **fields)


log = Logger()


def _made_visible(_: Any, __: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Keep texts of clients from controlling the terminal; JSON escapes what would."""
    return {key: visible(each) if isinstance(each, str) else each for key, each in fields.items()}


def to_standard_error() -> None:
    """Log to standard error until `configure` is called."""
    _configure("info", as_text=True, cache_loggers=False)


def configure(level: str, form: str) -> None:
    """Configure the logging of this process; `form` is text, json, or empty: text on a terminal."""
    as_text = form == "text" or (form == "" and sys.stderr.isatty())
    _configure(level, as_text=as_text, cache_loggers=True)


def _configure(level: str, *, as_text: bool, cache_loggers: bool) -> None:
    import structlog  # noqa: PLC0415 - as a logger does.

    def plain(to: TextIO, error: Any) -> None:
        # Rich's tracebacks would show local variables, which hold secrets and messages.
        text = StringIO()
        structlog.dev.plain_traceback(text, error)
        to.write(visible(text.getvalue()))

    in_between: Any = _made_visible if as_text else structlog.processors.format_exc_info
    renderer = (
        structlog.dev.ConsoleRenderer(exception_formatter=plain)
        if as_text
        else structlog.processors.JSONRenderer()
    )
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            in_between,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=cache_loggers,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
