"""The version of SkipMQ, and when this process began to import it."""

from time import monotonic

VERSION = "0.1.0"
# Set first, so that start-up time includes all other imports.
STARTED = monotonic()
