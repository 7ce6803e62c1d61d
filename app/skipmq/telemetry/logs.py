"""Structured logs on standard error, as text or JSON; they never contain message bodies."""

import logging
import sys

import structlog

from skipmq.config.settings import Settings

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def to_standard_error() -> None:
    """Log to standard error until `configure` is called."""
    _configure("info", as_text=True, cache_loggers=False)


def configure(settings: Settings) -> None:
    """Configure the logging of this process from the settings."""
    as_text = settings.log_format == "text" or (settings.log_format == "" and sys.stderr.isatty())
    _configure(settings.log_level, as_text=as_text, cache_loggers=True)


def _configure(level: str, *, as_text: bool, cache_loggers: bool) -> None:
    # Rich's tracebacks would show local variables, which hold secrets and messages.
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
        cache_logger_on_first_use=cache_loggers,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
