"""A real Django project, its database and its manage.py."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Self

import psycopg
import pytest
from psycopg.conninfo import conninfo_to_dict

from support.forks import DJANGO, DJANGO_ALONE, Forked
from support.http import environment
from support.postgres import Connection, Databases

FOLDER = Path(__file__).parent / "project"
QUEUES: dict[str, dict[str, Any]] = {
    "orders": {"VisibilityTimeout": 60},
    "news": {},
    "sessions": {},
    "async-sessions": {},
}


class _OfProject(Forked):
    """`manage.py`, or pytest in its place."""

    of_others = DJANGO


class _WithoutUs(Forked):
    of_all = DJANGO_ALONE


class Manage:
    """`manage.py` of a project: what it runs is a process of its own.

    It is forked from one that has imported Django, and us unless modules are missing that we need.
    """

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.settings: dict[str, Any] = {
            "databases": {"default": database_of(url)},
            "skipmq": {"QUEUES": QUEUES},
        }

    @property
    def _variables(self) -> dict[str, str]:
        return environment({}) | {"SHOP": json.dumps(self.settings)}

    @property
    def _popen(self) -> type[Forked]:
        return _WithoutUs if "missing" in self.settings else _OfProject

    def _words(self, *words: str) -> list[str]:
        return [sys.executable, "manage.py", *words]

    def run(self, *words: str, code: int = 0) -> str:
        """Run a command to its end; return what it printed."""
        return self._run(self._words(*words), code)

    def pytest(self, *words: str) -> str:
        """Run the project's tests by pytest-django; return what it printed."""
        options = ["--ds", "shop_site.settings", "-p", "no:cacheprovider"]
        options += ["-p", "no:hypothesispytest"]  # Half of the time that pytest takes to start.
        return self._run([sys.executable, "-m", "pytest", *options, *words], 0)

    def _run(self, words: list[str], code: int) -> str:
        pipe = subprocess.PIPE
        with self._popen(
            words, cwd=self.folder, env=self._variables, stdout=pipe, stderr=pipe, text=True
        ) as process:
            printed, errors = process.communicate(timeout=120)
        assert process.returncode == code, f"{words}: {printed}{errors}"
        return str(printed + errors)

    def start(self, *words: str) -> "Running":
        return Running(
            self._popen(
                self._words(*words),
                cwd=self.folder,
                env=self._variables,
                stderr=subprocess.PIPE,
                text=True,
                # With --reload it has a process of its own.
                start_new_session=True,
            )
        )

    def place(self, item: str = "tea", **more: Any) -> str:
        return self.run("place_order", json.dumps({"item": item} | more))


class Running:
    """A command that runs until it is stopped."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def ended(self, seconds: float = 60) -> int:
        """Return the exit code when the process has ended by itself."""
        code = self.process.wait(seconds)
        self._reader.join(10)
        return code

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        self._reader.join(10)
        assert self.process.stderr is not None
        self.process.stderr.close()


def database_of(url: str) -> dict[str, Any]:
    """Return an entry of DATABASES for a URL."""
    given = conninfo_to_dict(url)
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": given["dbname"],
        "USER": given["user"],
        "HOST": given["host"],
        "PORT": given["port"],
        # Of this test alone: several run at the same time.
        "TEST": {"NAME": f"{given['dbname']}_{os.getpid()}"},
    }


def project(folder: Path, url: str) -> Manage:
    """Return a copy of the project, on a database."""
    shutil.copytree(FOLDER, folder, ignore=shutil.ignore_patterns("__pycache__"))
    return Manage(folder, url)


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Databases], str]:
    """Give what returns the URL of a database that the project has migrated, one a server."""

    @cache
    def made(databases: Databases) -> str:
        url = databases.empty()
        project(tmp_path_factory.mktemp("migrated") / "project", url).run("migrate", "-v0")
        return url

    return made


@pytest.fixture
def url(
    request: pytest.FixtureRequest, databases: Databases, migrated: Callable[[Databases], str]
) -> Iterator[str]:
    """Give the URL of an empty database, or of a migrated one for a test with `shop`."""
    is_migrated = "shop" in request.fixturenames
    url = databases.copy(migrated(databases)) if is_migrated else databases.empty()
    yield url
    databases.drop(url)


@pytest.fixture
def manage(url: str, tmp_path: Path) -> Manage:
    """Give a project on an empty database."""
    return project(tmp_path / "project", url)


@pytest.fixture
def shop(manage: Manage) -> Manage:
    """Give a project whose database is migrated."""
    return manage


@pytest.fixture
def tables(manage: Manage) -> Iterator[Connection]:
    """Give a connection to the project's database."""
    with psycopg.connect(manage.url, autocommit=True) as connection:
        yield connection


@pytest.fixture(name="database_of")
def give_database_of() -> Callable[[str], dict[str, Any]]:
    return database_of
