"""A reader of the documentation, who runs its blocks in an empty folder next to a broker."""

import fcntl
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
from psycopg.conninfo import conninfo_to_dict

from support import forks, pages, programs
from support.analytics import SHORT_LIVED
from support.http import ROOT, NodeProcess, environment
from support.pages import Page
from support.postgres import Databases, as_node
from support.processes import is_alive, session_of

SECONDS = 600


def run(
    page: Page, databases: Databases, folder: Path, *, then: str = "", commands: Path | None = None
) -> str:
    """Run the blocks of a page, and then commands of the test; return what all printed.

    `commands` is the folder of the commands of a release, which replace this checkout's.
    A block that fails ends the run: the text then does not end in `>>> the end`.
    """
    url = databases.migrated()
    blocks, home = folder / "blocks", folder / "reader"
    blocks.mkdir()
    home.mkdir()
    (home / "deploy").symlink_to(ROOT / "deploy")  # As in a clone.
    with (
        roles_dropped(url),
        passwords_asked(url),
        NodeProcess(database_url=as_node(url), workers=1) as node,
        forks.commands(folder / "commands") as forked,
    ):
        node.ready()
        text = pages.script(page, blocks, node.port, url)
        variables = _variables(url, node.port, folder) | _sdks(page, home)
        variables["PATH"] = os.pathsep.join([str(commands or forked), variables["PATH"]])

        return _run(text + then, home, variables)


def _run(text: str, folder: Path, variables: dict[str, str]) -> str:
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
            _end_session(process)
    return log.read_text(encoding="utf-8", errors="replace")


def _end_session(leader: subprocess.Popen[bytes]) -> None:
    """Stop all processes of a session as an operator would, and kill what does not stop."""
    members = [p for p in psutil.process_iter() if session_of(p.pid) == leader.pid]
    for how in (signal.SIGTERM, signal.SIGKILL):
        for process in members:
            with suppress(psutil.NoSuchProcess):
                process.send_signal(how)
        _, members = psutil.wait_procs([p for p in members if is_alive(p.pid)], timeout=30)
    leader.wait()


def _variables(url: str, port: int, folder: Path) -> dict[str, str]:
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
        "PYTHONUNBUFFERED": "1",
        "PYSPARK_SUBMIT_ARGS": SHORT_LIVED,
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }


def _sdks(page: Page, folder: Path) -> dict[str, str]:
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
def passwords_asked(url: str) -> Iterator[None]:
    """Have roles that a page makes give their passwords, as on a server that is a reader's own."""
    name = conninfo_to_dict(url)["dbname"]
    rules = f"local {name} postgres,+skipmq_node trust\nlocal {name} all scram-sha-256\n"
    with psycopg.connect(url, autocommit=True) as owner:
        ((place,),) = owner.execute("show hba_file").fetchall()
        file = Path(place)

        def change(before: str, after: str) -> None:
            # Several workers have pages on one server.
            with file.open("r+") as opened:
                fcntl.flock(opened, fcntl.LOCK_EX)
                text = opened.read()
                opened.seek(0)
                opened.write(text.replace(before, after, 1))
                opened.truncate()
            owner.execute("select pg_reload_conf()")

        change("", rules)
        yield
        change(rules, "")


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
