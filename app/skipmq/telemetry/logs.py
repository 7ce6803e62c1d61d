"""Structured logs on standard error: text for people, JSON for collectors. Never a message body."""

import logging
import sys

import structlog

from skipmq.settings import Settings

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def to_standard_error() -> None:
    """Keep what is logged before the settings are known out of a command's output."""
    _write("info", as_text=True, settled=False)


def configure(settings: Settings) -> None:
    """Set up logging of this process as the settings say."""
    as_text = settings.log_format == "text" or (settings.log_format == "" and sys.stderr.isatty())
    _write(settings.log_level, as_text=as_text, settled=True)


def _write(level: str, *, as_text: bool, settled: bool) -> None:
    # Without rich's tracebacks, which show local variables: secrets, and messages.
    plain = structlog.dev.plain_traceback
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
            *([] if as_text else [structlog.processors.format_exc_info]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=settled,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
