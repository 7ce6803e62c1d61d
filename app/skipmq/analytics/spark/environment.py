"""The environment of Spark and of Java."""

import os
import sys
from secrets import token_hex


def prepare_spark(master: str) -> None:
    """Set Spark's Python to this one and, with a local master, its address to loopback."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if not submitted() and master.startswith("local"):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def submitted() -> bool:
    """Return whether `spark-submit` has started this process."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def prepare_spark_connect() -> None:
    """Choose the token that a server of Spark Connect in this process demands of clients."""
    os.environ.setdefault("SPARK_CONNECT_AUTHENTICATE_TOKEN", token_hex(16))


def spark_client(remote: str) -> dict[str, str]:
    """Return the environment of a client of Spark Connect."""
    return os.environ | {"SPARK_API_MODE": "connect", "SPARK_REMOTE": remote}


def java_home() -> str | None:
    """Return JAVA_HOME, which Spark tries before the path."""
    return os.environ.get("JAVA_HOME")
