"""Every block of the documentation, run in the order of its page."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from support import pages, programs
from support.http import NodeProcess, environment
from support.pages import Page
from support.postgres import Databases, as_node
from support.processes import is_alive

PAGES = [pages.read(file) for file in pages.files()]
SECONDS = 600


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, id=page.name, marks=[pytest.mark.slow] if page.slow else [])
        for page in PAGES
        if page.runs
    ],
)
def test_blocks_of_the_page_run(page: Page, embedded_databases: Databases, tmp_path: Path) -> None:
    url = embedded_databases.migrated()
    blocks, folder = tmp_path / "blocks", tmp_path / "reader"
    blocks.mkdir()
    folder.mkdir()
    with roles_dropped(url), NodeProcess(database_url=as_node(url)) as node:
        node.ready()
        text = pages.script(page, blocks, node.port, url)
        variables = reader(url, node.port, tmp_path) | sdks(page, folder)

        output = run(text, folder, variables)

    assert output.endswith(">>> the end\n"), output


def run(text: str, folder: Path, variables: dict[str, str]) -> str:
    """Run a script in a session of its own; return what it printed; end what it left running."""
    file, log = folder.with_name("page.sh"), folder.with_name("page.log")
    file.write_text(text, encoding="utf-8")
    with log.open("wb") as output:
        process = subprocess.Popen(
            ["sh", str(file)],
            cwd=folder,
            env=variables,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            process.wait(timeout=SECONDS)
        finally:
            end_session(process)
    return log.read_text(encoding="utf-8", errors="replace")


def end_session(leader: subprocess.Popen[bytes]) -> None:
    """Stop all processes of a session as an operator would, and kill what does not stop."""
    members = [p for p in psutil.process_iter() if session(p.pid) == leader.pid]
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(how)
        _, members = psutil.wait_procs([p for p in members if is_alive(p.pid)], timeout=30)
    leader.wait()


def session(pid: int) -> int | None:
    with suppress(ProcessLookupError):
        return os.getsid(pid)
    return None


def reader(url: str, port: int, folder: Path) -> dict[str, str]:
    """Return the environment of a reader, who has a broker and its command."""
    variables = environment({"database_url": url, "port": port})
    for name in [n for n in variables if n.startswith(("AWS_", "PYTEST_"))]:
        del variables[name]
    ours = [Path(sys.executable).parent, programs.INSTALLED / "awscli" / "bin"]
    return variables | {
        "PATH": os.pathsep.join([*map(str, ours), variables["PATH"]]),
        "XDG_DATA_HOME": str(folder / "data"),
        "AWS_CONFIG_FILE": os.devnull,
        "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
        "AWS_EC2_METADATA_DISABLED": "true",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }


def sdks(page: Page, folder: Path) -> dict[str, str]:
    """Put the SDKs of the languages of a page where `npm install` and the like would."""
    languages = page.languages()
    variables = {}
    clients = programs.FOLDER
    if "javascript" in languages:
        programs.javascript("life.js").check()
        (folder / "node_modules").symlink_to(clients / "javascript" / "node_modules")
    if "java" in languages:
        programs.java("Life").check()
        variables["CLASSPATH"] = str(clients / "java" / "target" / "dependency" / "*") + ":."
    if "go" in languages:
        programs.need("go")
        for name in ("go.mod", "go.sum"):
            shutil.copy(clients / "go" / name, folder)
    return variables


@contextmanager
def roles_dropped(url: str) -> Iterator[None]:
    """Drop at the end the roles that a page makes: the server outlives its database."""
    roles = "select rolname from pg_roles where rolname !~ '^pg_'"
    with psycopg.connect(url, autocommit=True) as owner:
        before = {role for (role,) in owner.execute(roles)}
        yield
        for role in {role for (role,) in owner.execute(roles)} - before:
            owner.execute(f'drop owned by "{role}" cascade')
            owner.execute(f'drop role "{role}"')
