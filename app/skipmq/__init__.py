"""SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table."""

from time import monotonic

# Set first, so that start-up time includes all other imports.
STARTED = monotonic()

__version__ = "0.1.0"
