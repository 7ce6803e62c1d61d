"""SkipMQ: an Amazon-SQS-compatible message broker on one PostgreSQL table."""

from time import monotonic

# The first line of the program that runs: how long a start takes is counted from here.
STARTED = monotonic()

__version__ = "0.1.0"
