"""Temporary servers are copies of a template, which is made once, whatever interrupts that."""

import fcntl
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from skipmq.database.embedded import (
    Contents,
    binaries,
    data_folder,
    ephemeral,
    start_ephemeral,
)
from support.accounts import ACCOUNT, python_of_others
from support.forks import SKIPMQ, Forked
from support.processes import ask, until, until_gone

IDENTIFIER = "select system_identifier::text from pg_control_system()"
KILLED = """
import os, signal, sys
from pathlib import Path
from skipmq.database.embedded import Contents, ephemeral, start_ephemeral
ephemeral._cache = lambda: Path(sys.argv[1])
def install(url):
    print(url, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
start_ephemeral(contents=Contents("killed", install))
"""
SERVE = [
    *("-c", "from skipmq.__main__ import main; main()"),
    *("serve", "--ephemeral", "--port", "0", "--json", "--stop-on-eof"),
]


class Starter(Forked):
    """A program that starts a server."""

    of_others = SKIPMQ


def install(url: str) -> None:
    ask(url, "create table installed (n int)")


SHARED = Contents("shared", install)


@pytest.fixture
def cache(place: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Give an empty folder in which templates are kept."""
    cache = place / "cache"
    monkeypatch.setattr(ephemeral, "_cache", lambda: cache)
    monkeypatch.setattr("tempfile.tempdir", str(place))
    yield cache
    until(lambda: not list(place.glob("skipmq-*")), "all servers have ended")


@pytest.fixture(scope="module")
def made(server_folder: Path) -> Iterator[tuple[Path, object]]:
    """Make the template of `SHARED` by a first server, which leaves a row; give its identifier."""
    cache = Path(tempfile.mkdtemp(prefix="templates-", dir=server_folder))
    cache.chmod(0o711)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ephemeral, "_cache", lambda: cache)
        with start_ephemeral(contents=SHARED) as server:
            identifier = ask(server.url, IDENTIFIER)
            ask(server.url, "insert into installed values (1)")
    (template,) = templates(cache)
    yield template, identifier
    shutil.rmtree(cache)


@pytest.fixture
def template(made: tuple[Path, object], cache: Path) -> Path:
    """Give the template, as a copy for this test's cache."""
    cache.mkdir(mode=0o711)
    copy = cache / made[0].name
    copy.mkdir(mode=0o700)
    data_folder.copy_cluster(made[0], copy)
    return copy


def templates(cache: Path) -> list[Path]:
    return [found for found in cache.glob("template-*") if found.suffix == "" and found.is_dir()]


def test_servers_are_copies_of_one_template_that_none_of_them_changes(
    cache: Path, template: Path, made: tuple[Path, object]
) -> None:
    with start_ephemeral(contents=SHARED) as server:
        assert ask(server.url, IDENTIFIER) == made[1]
        # No row of the first.
        assert ask(server.url, "select count(*) from installed") == 0

    assert templates(cache) == [template]


def test_contents_of_another_key_have_a_template_of_their_own_and_old_ones_go(
    cache: Path, template: Path
) -> None:
    old = cache / "template-0"
    old.mkdir()
    os.utime(old, (1, 1))

    with start_ephemeral(contents=Contents("two", lambda _: None)) as server:
        assert ask(server.url, "select to_regclass('installed') is null") is True

    # What was not used for long goes when another is made.
    assert len({*templates(cache)} - {template, old}) == 1
    assert len(templates(cache)) == 2


def test_concurrent_starts_share_the_template_that_one_of_them_makes(cache: Path) -> None:
    made: list[str] = []
    contents = Contents("concurrent", made.append)
    with ThreadPoolExecutor(4) as threads, ExitStack() as stack:
        starts = [threads.submit(start_ephemeral, contents=contents) for _ in range(4)]
        servers = [stack.enter_context(start.result()) for start in starts]
        identifiers = {ask(server.url, IDENTIFIER) for server in servers}

    assert len({server.data_dir for server in servers}) == 4
    assert len(identifiers) == 1
    assert len(made) == 1
    assert len(templates(cache)) == 1


def test_start_that_is_killed_while_it_makes_the_template_leaves_it_to_the_next(
    cache: Path,
) -> None:
    words = [sys.executable, "-c", KILLED, str(cache)]
    with Starter(words, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.communicate()[0].startswith("postgresql://")
    assert templates(cache) == []

    with start_ephemeral(contents=Contents("killed", install)) as server:
        assert ask(server.url, "select count(*) from installed") == 0

    (template,) = templates(cache)
    assert not (template / "postmaster.pid").exists()
    assert not list(cache.glob("*.new"))


def test_damaged_template_is_replaced(cache: Path, template: Path) -> None:
    os.truncate(template / "global" / "pg_control", 0)

    with start_ephemeral(contents=SHARED) as server:
        assert ask(server.url, "select to_regclass('installed') is null") is True
    assert templates(cache) == []
    with start_ephemeral(contents=SHARED) as server:
        assert ask(server.url, "select count(*) from installed") == 0


def test_template_that_is_being_copied_is_not_removed(cache: Path) -> None:
    template = cache / "template-0"
    template.mkdir(parents=True)

    with ephemeral.locked(cache, fcntl.LOCK_SH):
        ephemeral.remove(template)
        assert templates(cache) == [template]
    ephemeral.remove(template)

    assert templates(cache) == []


def test_template_that_cannot_be_kept_is_none(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "file").touch()
    monkeypatch.setattr("tempfile.tempdir", str(place))
    for cache in (place / "file" / "cache", Path("~/.cache/skipmq")):
        monkeypatch.setattr(ephemeral, "_cache", lambda cache=cache: cache)

        with start_ephemeral(contents=Contents("nowhere", install)) as server:
            assert ask(server.url, "select to_regclass('installed') is null") is True

    assert not Path("~").exists()
    until(lambda: not list(place.glob("skipmq-*")), "all servers have ended")


def test_installation_that_fails_is_reported_and_leaves_no_template(cache: Path) -> None:
    def fail(_url: str) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        start_ephemeral(contents=Contents("failing", fail))

    assert templates(cache) == []
    with start_ephemeral(contents=Contents("failing", install)) as server:
        assert ask(server.url, "select count(*) from installed") == 0


@pytest.mark.parametrize(
    "home",
    ["own", *(pytest.param(each, marks=pytest.mark.slow) for each in ("absent", "read-only"))],
)
def test_account_without_a_home_to_write_to_is_served(place: Path, home: str) -> None:
    program, variables = python_of_others()
    (place / "own").mkdir(mode=0o777)
    (place / "own").chmod(0o777)
    (place / "read-only").mkdir(mode=0o755)
    (place / "tmp").mkdir()
    (place / "tmp").chmod(0o1777)
    environment = {**variables, "HOME": str(place / home), "TMPDIR": str(place / "tmp")}
    # A second start copies the template, where there is one.
    for _ in range(2 if home == "own" else 1):
        with subprocess.Popen(
            [program, *SERVE],
            env=environment,
            cwd="/",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            **ACCOUNT,
        ) as process:
            assert process.stdout is not None
            assert b'"url"' in process.stdout.readline()
        assert process.returncode == 0

    kept = templates(place / home / ".cache" / "skipmq")
    assert len(kept) == (home == "own")
    until(lambda: not list((place / "tmp").iterdir()), "all servers have ended")


def test_copy_of_a_template_has_a_receipt_key_of_its_own(place: Path) -> None:
    """Otherwise a handle of one test run would be valid in the next."""
    keys = set()
    for _ in range(2):
        with Forked(
            [sys.executable, "-m", "skipmq", *SERVE[2:]],
            env=os.environ | {"TMPDIR": str(place)},  # noqa: TID251
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["database_url"]
            keys.add(ask(url, "select key from skipmq.receipt_key"))
            today = "select to_char(now() at time zone 'UTC', 'YYYYMMDD')"
            partition = f"skipmq.history_{ask(url, today)}"
            assert ask(url, f"select to_regclass('{partition}') is not null") is True
        until_gone(process.pid)

    assert len(keys) == 2
    until(lambda: not list(place.glob("skipmq-*")), "all servers have ended")


def test_copy_of_a_cluster_keeps_owners_and_modes(place: Path) -> None:
    source, target = place / "source", place / "target"
    (source / "inner").mkdir(parents=True, mode=0o700)
    (source / "inner" / "file").write_bytes(b"\x00" * 8192)
    (source / "inner" / "file").chmod(0o600)
    target.mkdir()
    account = binaries.own_account()
    if account is not None:
        os.chown(source / "inner" / "file", account.uid, account.gid)

    data_folder.copy_cluster(source, target)

    for name in ("inner", "inner/file"):
        was, found = (source / name).stat(), (target / name).stat()
        assert (was.st_uid, was.st_mode) == (found.st_uid, found.st_mode)
    assert (target / "inner" / "file").read_bytes() == b"\x00" * 8192
