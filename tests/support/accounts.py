"""Programs run by another account than root."""

import os
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from typing import Any

import pytest

from support.http import ROOT

ACCOUNT: dict[str, Any] = {"user": "nobody", "group": "nogroup", "extra_groups": []}


def python_of_others() -> tuple[str, Mapping[str, str]]:
    """Return a Python that every account can run, and the variables with which it finds SkipMQ.

    Skip the test where there is none, or its account is no root, which could become another.
    """
    if os.geteuid() != 0:
        pytest.skip("only root becomes another account")
    paths = [str(ROOT / "app"), sysconfig.get_path("purelib")]
    program = f"/usr/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    variables = {"PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(paths)}
    try:
        found = subprocess.run(
            [program, "-c", "import skipmq.cli, psycopg"],
            env=variables,
            cwd="/",
            capture_output=True,
            check=False,
            **ACCOUNT,
        )
    except OSError:
        pytest.skip(f"no {program} here")
    if found.returncode:
        pytest.skip("other accounts cannot reach this Python's packages")
    return program, variables
