"""A release: what refuses it, what it builds, and that this works where nothing else is."""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

import skipmq
from release import (
    FROZEN,
    MOST_IN_WHEEL,
    SUMS,
    ReleaseError,
    base,
    build,
    describe,
    notes,
    obstacles,
    sign,
    try_out,
)
from skipmq.database import files
from support.http import ROOT
from support.programs import need
from support.tree import tracked

TAG = skipmq.__version__
# What the script is, and reads before it builds anything.
READ = (
    *("app/skipmq/release.py", "deploy/release.py", "deploy/bill_of_materials.py"),
    ".gitignore",
)


def git(tree: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@localhost")
    subprocess.run(["git", *who, *words], cwd=tree, check=True, capture_output=True)


def commit(tree: Path) -> None:
    git(tree, "add", "--all")
    git(tree, "commit", "--message", "x")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Give a tree, committed, with all that is asked before a release is built."""
    return released(tmp_path / "tree", map(Path, READ))


@pytest.fixture
def whole_tree(tmp_path: Path) -> Path:
    """Give a copy of the tree, committed, with all that a release is built of."""
    return released(tmp_path / "tree", (path.relative_to(ROOT) for path in tracked()))


def released(tree: Path, names: Iterable[Path]) -> Path:
    """Copy files of the repository and add what a release wants; commit all."""
    for name in names:
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, tree / name)
    (tree / FROZEN).parent.mkdir(parents=True, exist_ok=True)
    (tree / FROZEN).write_text(files.first_migration())
    (tree / "CHANGELOG.md").write_text(f"# Changelog\n\n## [{TAG}] - 2026-12-24\n")
    git(tree, "init", "--quiet")
    commit(tree)
    return tree


def test_committed_tree_with_an_entry_and_no_tag_can_be_released(tree: Path) -> None:
    assert obstacles(tree) == []


def test_dirty_tree_is_refused(tree: Path) -> None:
    (tree / "forgotten.txt").touch()

    (found,) = obstacles(tree)

    assert found == "the tree is dirty (1 file): commit or remove what `git status` lists"


@pytest.mark.parametrize("heading", ["## [Unreleased]", f"## [{TAG}]", "## [9.9.9] - 2026-12-24"])
def test_version_without_a_dated_entry_is_refused(heading: str, tree: Path) -> None:
    (tree / "CHANGELOG.md").write_text(f"{heading}\n")
    commit(tree)

    (found,) = obstacles(tree)

    assert found.startswith(f"CHANGELOG.md has no entry of {TAG}: head what is unreleased by ## [")


def test_version_that_has_a_tag_is_refused(tree: Path) -> None:
    git(tree, "tag", TAG)

    (found,) = obstacles(tree)

    assert found == f"the tag {TAG} exists: raise VERSION in app/skipmq/release.py"


def test_migration_that_is_not_written_down_is_refused(tree: Path) -> None:
    (tree / FROZEN).unlink()
    commit(tree)

    (found,) = obstacles(tree)

    assert found == "the first migration is not written down: make freeze, and commit its file"


def test_tree_that_is_refused_builds_nothing(tree: Path) -> None:
    (tree / "forgotten.txt").touch()
    git(tree, "tag", TAG)

    done = subprocess.run(
        [sys.executable, "deploy/release.py"],
        cwd=tree, capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "not released:"
    assert len(done.stderr.splitlines()) == 3
    assert not (tree / "dist").exists()


def test_notes_are_the_entry_of_the_version_alone(tmp_path: Path, tree: Path) -> None:
    changes = tree / "CHANGELOG.md"
    changes.write_text(
        f"# Changelog\n\n## [{TAG}] - 2026-12-24\n\n- new\n\n## [0.0.9] - 2026\n- old\n"
    )
    file = notes(tree, tmp_path)
    changes.write_text(f"## [{TAG}] - 2026-12-24\n\n## [0.0.9] - 2026\n- old\n")

    assert file.read_text() == f"# SkipMQ {TAG}\n\n- new\n"
    with pytest.raises(ReleaseError, match="is empty: say what is new"):
        notes(tree, tmp_path)


def test_every_stage_of_the_image_has_the_base_that_the_release_names() -> None:
    text = (ROOT / "deploy" / "container" / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)(?: AS (\w+))?$", text, re.MULTILINE)

    named = {name for _, name in stages}
    assert re.fullmatch(r"python:3\.\d+-slim-\w+", base(ROOT))
    assert {image for image, _ in stages} - named == {"$BASE"}


@pytest.mark.slow
def test_sdist_has_the_tree_and_builds_the_wheel_that_the_tree_builds(
    whole_tree: Path, tmp_path: Path
) -> None:
    sdist, wheel = build(whole_tree, tmp_path)
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", tmp_path / "direct"],
        cwd=whole_tree, check=True, capture_output=True,
    )  # fmt: skip

    with tarfile.open(sdist) as archive:
        members = {each.name.partition("/")[2] for each in archive if each.isfile()}
    listed = subprocess.run(
        ["git", "ls-files"], cwd=whole_tree, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    assert members == {*listed, "PKG-INFO"}
    assert (tmp_path / "direct" / wheel.name).read_bytes() == wheel.read_bytes()
    with zipfile.ZipFile(wheel) as archive:
        assert sum(each.file_size for each in archive.infolist()) <= MOST_IN_WHEEL


@pytest.fixture
def gpg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Have gpg on PATH and nothing else, with no key; its agent ends with the test."""
    need("gpg", "gpgconf")
    programs, home = tmp_path / "programs", tmp_path / "keys"
    programs.mkdir()
    home.mkdir(mode=0o700)
    for name in ("gpg", "gpgconf"):
        found = shutil.which(name)
        assert found is not None
        (programs / name).symlink_to(found)
    monkeypatch.setenv("GNUPGHOME", str(home))
    monkeypatch.setenv("PATH", str(programs))
    yield
    subprocess.run(["gpgconf", "--kill", "all"], check=True)


@pytest.mark.usefixtures("gpg")
def test_sums_and_bill_are_of_the_files_and_signed_with_the_key_that_is_there(
    tmp_path: Path,
) -> None:
    artifact = tmp_path / f"skipmq-{TAG}.tar.gz"
    artifact.write_bytes(b"sources")

    bill, sums = describe([artifact], tmp_path, TAG)
    unsigned = sign(sums)
    key = ["gpg", "--batch", "--passphrase", "", "--quick-generate-key", "x@localhost"]
    subprocess.run(key, check=True, capture_output=True)
    signed = sign(sums)

    assert unsigned.startswith(f"NOT SIGNED: nothing here can sign {SUMS}.")
    assert signed == f"signed by gpg: {SUMS}"
    subprocess.run(["gpg", "--verify", f"{sums}.asc", sums], check=True, capture_output=True)
    digest = hashlib.sha256(b"sources").hexdigest()
    assert sums.read_text().splitlines()[0] == f"{digest}  {artifact.name}"
    component = json.loads(bill.read_text())["metadata"]["component"]
    assert component["version"] == TAG
    assert component["components"][0]["hashes"] == [{"alg": "SHA-256", "content": digest}]


@pytest.mark.slow
def test_wheel_works_where_nothing_else_is_installed(whole_tree: Path, tmp_path: Path) -> None:
    _, wheel = build(whole_tree, tmp_path)

    said = try_out(wheel, ROOT / "deploy" / "constraints.txt")

    assert re.fullmatch(r"the client takes \d+\.\d MB, its import \d+\.\d ms", said)
