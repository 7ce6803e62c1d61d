"""The release of a clean clone by the steps of CONTRIBUTING.md, installed as a stranger does."""

import os
import subprocess
import venv
from pathlib import Path

import pytest

import skipmq
from support import pages, reader
from support.http import ROOT
from support.postgres import Databases

TAG = skipmq.__version__
WHO = ("-c", "user.name=x", "-c", "user.email=x@localhost")
# What the guides show with SkipMQ; their texts have `pip install` of each.
PACKAGES = ["celery[sqs]", "dj-database-url", "moto[sqs]", "pytest", "sqlalchemy"]
GUIDES = [
    page
    for folder in ("guides", "come-from")
    for file in sorted((pages.FOLDER / folder).glob("*.md"))
    if "sh" in (page := pages.read(file)).languages()
]


def run(folder: Path, *words: str | Path) -> str:
    """Run a command in a folder without the environment of these tests; return what it printed."""
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in os.environ}  # noqa: TID251 - a shell's.
    done = subprocess.run(words, cwd=folder, env=kept, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{words}\n{done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def clone(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a clone in which the steps before `make release` were done."""
    folder = tmp_path_factory.mktemp("rehearsal")
    run(folder, "git", "clone", "--quiet", ROOT, "skipmq")
    tree = folder / "skipmq"
    changes = tree / "CHANGELOG.md"
    text = changes.read_text(encoding="utf-8")
    changes.write_text(text.replace("## [Unreleased]", f"## [{TAG}] - 2026-12-24", 1), "utf-8")
    run(tree, "make", "freeze")
    run(tree, "git", "add", "--all")
    run(tree, "git", *WHO, "commit", "--quiet", "--message", f"Release {TAG}")
    return tree


@pytest.fixture(scope="module")
def installed(clone: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the programs of a fresh environment with what `make release` made of the clone."""
    printed = run(clone, "make", "release")
    assert "Next, by hand:" in printed
    run(clone / "dist", "sha256sum", "--check", "SHA256SUMS")
    place = tmp_path_factory.mktemp("stranger") / "venv"
    venv.create(place, with_pip=True)
    pip = (place / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install", "-q")
    ours = ("--no-index", "--no-deps", "--find-links", clone / "dist", f"skipmq=={TAG}")
    run(clone, *pip, *ours)
    constraints = clone / "deploy" / "constraints.txt"
    run(place, *pip, "-c", constraints, f"skipmq[server,testing,django]=={TAG}", *PACKAGES)
    return place / "bin"


@pytest.mark.slow
def test_release_has_what_is_published(clone: Path, installed: Path) -> None:
    names = {file.name for file in (clone / "dist").iterdir()}
    wanted = {f"skipmq-{TAG}{end}" for end in (".tar.gz", "-py3-none-any.whl", ".cdx.json", ".md")}
    where = run(installed, installed / "python", "-c", "import skipmq; print(skipmq.__file__)")

    assert names >= wanted | {"SHA256SUMS"}
    assert Path(where.strip()).is_relative_to(installed.parent)
    assert run(clone, "git", "status", "--porcelain") == ""


@pytest.mark.slow
@pytest.mark.parametrize("page", [pytest.param(page, id=page.name) for page in GUIDES])
def test_first_commands_of_the_guide_run(
    page: pages.Page, installed: Path, embedded_databases: Databases, tmp_path: Path
) -> None:
    # Blocks before the first command are files that it takes.
    first = next(n for n, block in enumerate(page.runs, start=1) if block.language == "sh")
    begun = pages.Page(page.name, page.runs[:first])

    output = reader.run(begun, embedded_databases, tmp_path, commands=installed)

    assert output.endswith(">>> the end\n"), output
