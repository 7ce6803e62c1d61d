"""Structured logs on standard error: text for people, JSON for collectors. Never a message body."""

import logging
import sys

import structlog

from skipmq.config import Settings

_LEVELS = {"debug": 10, "info": 20, "warning": 30, "error": 40}


def to_standard_error() -> None:
    """Keep what is logged before the settings are known out of a command's output."""
    structlog.configure(logger_factory=structlog.PrintLoggerFactory(sys.stderr))


def configure(settings: Settings) -> None:
    """Set up logging of this process as the settings say."""
    as_text = settings.log_format == "text" or (settings.log_format == "" and sys.stderr.isatty())
    renderer = structlog.dev.ConsoleRenderer() if as_text else structlog.processors.JSONRenderer()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(_LEVELS[settings.log_level]),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="%(message)s")
