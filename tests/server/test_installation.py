"""What a new user does: install, start, send the first message."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http import ROOT, client, environment, eventually, free_port, raw
from support.processes import is_alive, pids_with, until
from support.tree import copy_tracked

# The files that a page of the console asks for.
STATIC = re.compile('(?:href|src)="(/console/static/[^"]+)"')


@pytest.fixture
def place(public_folder: Path) -> Iterator[Path]:
    """Give an empty folder; nothing runs in it after the test."""
    folder = public_folder / "installation"
    folder.mkdir()
    yield folder
    until(lambda: not [pid for pid in pids_with(str(folder)) if is_alive(pid)], "all have ended")
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("wheel")
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", place],
        cwd=ROOT,
        check=True,
        capture_output=True,
    )
    (wheel,) = place.glob("*.whl")
    return wheel


def first_message(url: str) -> str:
    sqs = client(url)
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="first")
    body: str = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"][0]["Body"]
    return body


def is_ready(url: str) -> bool:
    try:
        return raw(url + "/health/ready").status == 200
    except OSError:
        return False


def copy_of_the_tree(place: Path) -> Path:
    """Copy what git has or would take, as a clone of the next commit."""
    tree = place / "skipmq"
    copy_tracked(tree)
    return tree


def test_wheel_has_sql_and_migrations_and_serves(place: Path, wheel: Path) -> None:
    installed = place / "installed"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(installed)
    port = free_port()
    environ = environment({"port": port, "data_dir": place / "data"})
    environ["PYTHONPATH"] = str(installed)
    where = [sys.executable, "-c", "import skipmq.database.files as f; print(f.folder('sql'))"]
    found = subprocess.run(
        where, env=environ, cwd=place, capture_output=True, text=True, check=True
    ).stdout.strip()

    process = subprocess.Popen(
        [sys.executable, "-m", "skipmq", "serve"], env=environ, cwd=place, stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: is_ready(f"http://127.0.0.1:{port}"), 120)
        body = first_message(f"http://127.0.0.1:{port}")
        page = raw(f"http://127.0.0.1:{port}/console/us-east-1/000000000000/queues").body
        runbook = raw(f"http://127.0.0.1:{port}/console/runbook").body
        files = {
            each: raw(f"http://127.0.0.1:{port}{each}").status for each in STATIC.findall(page)
        }
    finally:
        process.terminate()
        process.wait(timeout=60)

    assert found == str(installed / "skipmq" / "sql")
    assert body == "first"
    assert 'id="a-table-is-locked"' in runbook
    assert set(files.values()) == {200}
    assert {re.sub(r"\?.*", "", each).rpartition(".")[2] for each in files} == {"svg", "css", "js"}
    assert (installed / "skipmq" / "console" / "static" / "htmx.LICENSE").exists()
    assert (installed / "skipmq" / "analytics" / "dbt" / "dbt_project.yml").exists()
    assert (installed / "pyspark_skipmq.py").exists()


def test_wheel_has_a_bill_of_its_materials(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = [each for each in archive.namelist() if "/sboms/" in each]
        bill = json.loads(archive.read(name))
        about = next(each for each in archive.namelist() if each.endswith("/METADATA"))
        needs = re.findall(
            r"^Requires-Dist: ([a-z-]+)[^;\n]*(?:; extra == 'server')?$",
            archive.read(about).decode(),
            re.MULTILINE,
        )

    assert name.endswith(".cdx.json")
    assert (bill["bomFormat"], bill["metadata"]["component"]["name"]) == ("CycloneDX", "skipmq")
    found = {each["name"]: each for each in bill["components"]}
    assert {"psycopg", "flask"} <= set(needs) <= set(found)
    assert all(each["version"] and each["licenses"] for each in found.values())


def test_make_run_serves_what_is_installed(place: Path) -> None:
    # Without an install, which a change of pyproject.toml would bring while other tests run.
    body, told = first_message_of_make_run(ROOT, place, "-o", ".venv/.installed")

    assert body == "first"
    assert "serves SQS at" in told


@pytest.mark.slow
def test_make_run_does_everything_from_a_clone(place: Path) -> None:
    """The gate is run from a clone, and installs by the same rules."""
    body, told = first_message_of_make_run(
        copy_of_the_tree(place), place, f"PYTHON={getattr(sys, '_base_executable', sys.executable)}"
    )

    assert body == "first"
    assert "serves SQS at" in told


def first_message_of_make_run(tree: Path, place: Path, *options: str) -> tuple[str, str]:
    """Run `make run` in a tree; return the first message of a user, and what the node printed."""
    port = free_port()
    environ = environment({"port": port, "data_dir": place / "data"})
    environ.pop("VIRTUAL_ENV", None)
    process = subprocess.Popen(
        ["make", "run", *options],
        cwd=tree,
        env=environ,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        eventually(lambda: process.poll() is not None or is_ready(f"http://127.0.0.1:{port}"), 600)
        body = first_message(f"http://127.0.0.1:{port}")
    finally:
        # Ctrl-C in a terminal reaches the whole group.
        os.killpg(process.pid, signal.SIGINT)
        _, told = process.communicate(timeout=60)

    assert "Traceback" not in told
    return body, told
