"""An object store on this machine: moto's server, which answers as S3 does."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import boto3

from support.http import eventually, free_port

BUCKET = "archive"
# The driver for JDBC, and Hadoop's file system for S3 with AWS's SDK, which Maven brings.
JARS = "org.postgresql:postgresql:42.7.8,org.apache.hadoop:hadoop-aws:3.5.0"
PATIENCE = 60


@contextmanager
def running(folder: Path) -> Iterator[dict[str, str]]:
    """Give the variables by which clients find a store with a bucket; it ends with the block."""
    port, log = free_port(), folder / "log"
    with log.open("wb") as output:
        server = subprocess.Popen(
            [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)],
            stdout=output,
            stderr=output,
        )
    variables = {
        "AWS_ACCESS_KEY_ID": "key",
        "AWS_SECRET_ACCESS_KEY": "secret",
        "AWS_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_ALLOW_HTTP": "true",
    }
    try:
        eventually(lambda: b"Running on" in log.read_bytes() or server.poll(), PATIENCE)
        assert server.poll() is None, log.read_text()
        client(variables).create_bucket(Bucket=BUCKET)
        yield variables
    finally:
        server.kill()
        server.wait()


def client(variables: dict[str, str]) -> Any:
    """Return a client of the store."""
    return boto3.client(
        "s3",
        endpoint_url=variables["AWS_ENDPOINT_URL"],
        region_name=variables["AWS_REGION"],
        aws_access_key_id=variables["AWS_ACCESS_KEY_ID"],
        aws_secret_access_key=variables["AWS_SECRET_ACCESS_KEY"],
    )


def keys(variables: dict[str, str], prefix: str) -> list[str]:
    """Return the keys of objects that begin so."""
    found = client(variables).list_objects_v2(Bucket=BUCKET, Prefix=prefix)
    return [each["Key"] for each in found.get("Contents", [])]
