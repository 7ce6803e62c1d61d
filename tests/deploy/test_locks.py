"""The locks: what nodes and images install, by version and hash."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from bill_of_materials import OLDEST, constraints, runtime
from support.http import ROOT, environment
from write_locks import FOLDER, HEADER, locked

DOCKERFILE = (ROOT / "deploy" / "container" / "Dockerfile").read_text()
ENTRY = re.compile(r"^(\S.*?) \\\n((?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+)", re.MULTILINE)


def entries(name: str) -> list[Requirement]:
    """Return what a lock holds, after a look that it holds nothing but entries with hashes."""
    text = (FOLDER / f"{name}.txt").read_text().removeprefix(HEADER)
    assert ENTRY.sub("", text) == ""
    return [Requirement(each[0]) for each in ENTRY.findall(text)]


def names(name: str) -> set[str]:
    """Return what a lock installs where nodes run: tzdata is for Windows alone."""
    return {
        canonicalize_name(each.name)
        for each in entries(name)
        if each.marker is None or each.marker.evaluate({**OLDEST})
    }


@pytest.mark.parametrize("name", locked())
def test_lock_has_the_tested_versions_and_all_that_they_need(name: str) -> None:
    pinned = {canonicalize_name(each.name): str(each.specifier) for each in entries(name)}
    tested = constraints()

    assert names(name) == set(runtime(locked()[name]))
    assert pinned
    assert pinned == {each: f"=={tested[each]}" for each in pinned}


def test_locks_are_complete_for_the_wheel() -> None:
    nodes = names("server")

    assert nodes == set(runtime(["skipmq[server]"])) - {"skipmq"}
    assert nodes | names("opentelemetry") == set(runtime(["skipmq[server,opentelemetry]"])) - {
        "skipmq"
    }


def test_folder_has_just_the_locks_that_are_written() -> None:
    assert {each.stem for each in FOLDER.iterdir()} == set(locked())


def test_image_installs_nothing_without_a_hash_but_the_wheel_that_it_built() -> None:
    installs = re.findall(r"pip install ((?:.|\\\n)*?)(?: \\\n +&&|\n)", DOCKERFILE)
    unchecked = [each for each in installs if "--require-hashes" not in each]

    assert len(installs) == 3
    assert unchecked == ["--no-deps dist/skipmq-*.whl"]


@pytest.mark.slow
def test_image_is_built_with_the_locks(tmp_path: Path) -> None:
    """Run the commands of the image's build in a folder of this machine."""
    build, _, _ = DOCKERFILE.partition("\nFROM python:3.11-slim-bookworm AS node\n")
    source = tmp_path / "src"
    for line in re.findall(r"^COPY (.*) \S+$", build, re.MULTILINE):
        for name in line.split():
            copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            copy(ROOT / name, source / name)
    commands = re.findall(r"^RUN ((?:.*\\\n)*.*)$", build, re.MULTILINE)
    script = "\n".join(commands).replace("/opt/", f"{tmp_path}/opt/")
    script = script.replace("python -m venv", f"{sys.executable} -m venv")

    subprocess.run(
        ["sh", "-euc", script.replace("--no-cache-dir ", "")],
        cwd=source, env=environment({}) | {"EXTRAS": "opentelemetry"}, check=True,
    )  # fmt: skip

    said = subprocess.run(
        [tmp_path / "opt" / "skipmq" / "bin" / "python", "-c",
         "import skipmq.server.processes.serve, opentelemetry.exporter.otlp.proto.http;"
         "print(skipmq)"],
        cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert str(tmp_path / "opt") in said.stdout
