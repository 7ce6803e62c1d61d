"""What a log line has of an error."""

import subprocess
import sys

import pytest

FAILING = """
import structlog
from skipmq.telemetry import logs
{configure}
def fail():
    password = "".join(["plan", "ted"])
    raise ValueError("why")
try:
    fail()
except ValueError:
    structlog.get_logger().exception("failed")
"""


@pytest.mark.parametrize(
    "configure",
    [
        "logs.to_standard_error()",
        "logs.configure('info', 'text')",
        "logs.configure('info', 'json')",
    ],
)
def test_error_is_logged_without_local_variables(configure: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FAILING.format(configure=configure)],
        capture_output=True,
        text=True,
        check=True,
    )

    assert "ValueError: why" in done.stderr
    assert "planted" not in done.stderr
    assert done.stdout == ""
