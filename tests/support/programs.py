"""Programs of other kinds that speak to a node through an SQS client of their own."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

import pytest

from support.http import ROOT

FOLDER = ROOT / "tests" / "clients"
INSTALLED = ROOT / ".cache" / "clients"
_COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy"
# Of a JVM: what lives for seconds is compiled once, quickly.
SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
CREDENTIALS = {
    "AWS_ACCESS_KEY_ID": "key",
    "AWS_SECRET_ACCESS_KEY": "secret",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


def need(*commands: str) -> None:
    """Skip the test on a machine without these commands, which CI must not be."""
    if missing := [name for name in commands if shutil.which(name) is None]:
        not_here(f"no {', '.join(missing)} here: `make packages` installs or names what is missing")


def not_here(why: str) -> NoReturn:
    """Skip the test for want of something that CI must have."""
    if os.environ.get("CI") == "true":  # noqa: TID251 - a switch of the tests.
        pytest.fail(why)
    pytest.skip(why)


def maven(artifact: str, folder: Path) -> Path:
    """Return the file of an artifact that Maven brings to a folder, unless it is there.

    `artifact` is group:name:version, or group:name:version:packaging. Skips the test where Maven
    cannot.
    """
    need("mvn")
    _, name, version, packaging = (*artifact.split(":"), "jar")[:4]
    file = folder / f"{name}-{version}.{packaging}"
    if not file.exists():
        done = subprocess.run(
            ["mvn", "-q", "-B", _COPY, f"-Dartifact={artifact}", f"-DoutputDirectory={folder}"],
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        if not file.exists():
            not_here(f"Maven has not brought {artifact}: {done.stdout[-500:]}")
    return file


def environment(variables: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return this process's environment with credentials for AWS and with these variables."""
    others = {k: v for k, v in os.environ.items() if not k.startswith("AWS_")}  # noqa: TID251
    return others | CREDENTIALS | dict(variables or {})


@dataclass(frozen=True, slots=True)
class Program:
    """How a program is run, and what there must be for that."""

    words: list[str]
    installed: Path
    commands: tuple[str, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)

    def check(self) -> None:
        """Skip the test on a machine without its commands; fail where it is not installed."""
        need(*self.commands)
        assert self.installed.exists(), "run `make clients`, which installs it"

    def run(self, *arguments: str, key: Mapping[str, str] | None = None) -> dict[str, Any]:
        """Return the summary that the program prints; it signs with a key, or with any."""
        self.check()
        done = subprocess.run(
            [*self.words, *arguments],
            env=environment({**self.variables, **(key or {})}),
            capture_output=True,
            text=True,
            timeout=180,
            check=False,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        summary: dict[str, Any] = json.loads(done.stdout)
        return summary


def python(script: str, client: str = "") -> Program:
    """Return a script that imports a client from the folder where it is installed, or our own."""
    folder = INSTALLED / client
    return Program(
        [sys.executable, str(FOLDER / "python" / script)],
        installed=folder / ".installed" if client else Path(sys.executable),
        variables={"PYTHONPATH": str(folder) if client else "", "PYTHONUTF8": "1"},
    )


def javascript(script: str) -> Program:
    folder = FOLDER / "javascript"
    return Program(
        ["node", str(folder / script)],
        installed=folder / "node_modules" / ".installed",
        commands=("node", "npm"),
    )


def java(main: str) -> Program:
    target = FOLDER / "java" / "target"
    return Program(
        ["java", *SHORT_LIVED, "-cp", f"{target / 'classes'}:{target / 'dependency' / '*'}", main],
        installed=target / ".installed",
        commands=("java", "javac", "mvn"),
    )


def go(name: str) -> Program:
    target = FOLDER / "go" / "target"
    return Program([str(target / name)], installed=target / ".installed", commands=("go",))
