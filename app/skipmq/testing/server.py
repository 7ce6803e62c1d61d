"""A server for tests: `skipmq serve` in a process of its own, whose database is gone with it.

And the schema in a test database of yours.
"""

import json
import os
import re
import select
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import IO, Any, Self

from skipmq import extras
from skipmq.testing.account import Account, Queues, is_conf, read_conf
from skipmq.testing.messages import TestingError

_START_SECONDS, _STOP_SECONDS = 60, 15
# The first of the accounts that are made for tests.
_FIRST = 100_000_000_001
# As SQLAlchemy writes a URL, with the driver.
_DRIVER = re.compile(r"^(postgres(?:ql)?)\+[a-z0-9]+:")


class Server(Account):
    """A server, and its default account, which SQL functions and commands use by default.

    `settings` are those of `skipmq config`, such as `region="eu-central-1"`. It ends with this
    process too, whatever ends that.
    """

    def __init__(self, queues: Queues | None = None, **settings: Any) -> None:
        if "database_url" in settings:
            raise TestingError("a test server brings its database: leave database_url out")
        self._given, self._settings = queues, settings
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: IO[bytes] | None = None
        self._accounts = count(_FIRST)

    def start(self, meanwhile: Callable[[], object] = lambda: None) -> Self:
        """Start it, and return when it takes requests; raise TestingError when it does not.

        `meanwhile` is called while it starts, for what takes time here. Raises MissingExtraError
        when the server is not installed.
        """
        extras.require_server("a test server", "testing")
        if self._process is not None:
            raise TestingError("the server runs already")
        given = {"port": 0, "log_level": "warning", "log_format": "text"}
        given |= self._named() | self._settings
        variables = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251 - handed on.
        variables |= {f"SKIPMQ_{name.upper()}": str(value) for name, value in given.items()}
        words = ["serve", "--ephemeral", "--json", "--stop-on-eof"]
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed by stop.
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-m", "skipmq", *words],
            env=variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            # Ctrl-C is for the tests, which stop it when they have ended.
            start_new_session=True,
        )
        try:
            meanwhile()
            said = self._first_line()
            place = said["url"], said["account"], said["region"], said["database_url"]
            self._owner_url = said["database_url"]
            super().__init__(*place, self._given)
        except BaseException:
            self.stop()
            raise
        self.console, self.pid = said["console"], said["pid"]
        return self

    def stop(self) -> None:
        """Stop it; its database is gone a moment later."""
        process, self._process = self._process, None
        if process is None or self._errors is None:
            return
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.close()
        # Where a fork of this process holds the pipe, too.
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
        self._errors.close()

    def new_account(self, queues: Queues | None = None) -> Account:
        """Return an account that no test has used."""
        number = str(next(self._accounts))
        return Account(self.url, number, self.region, self._owner_url, queues)

    @property
    def log(self) -> str:
        """What the server has logged."""
        if self._errors is None or self._errors.closed:
            return ""
        return os.pread(self._errors.fileno(), 1 << 20, 0).decode(errors="replace")

    def _named(self) -> dict[str, Any]:
        """Return the account and region in the ARNs of an elasticmq.conf."""
        if not is_conf(self._given):
            return {}
        found = read_conf(Path(str(self._given))).settings
        return {name: found[name] for name in ("account", "region") if name in found}

    def _first_line(self) -> Any:
        assert self._process is not None
        assert self._process.stdout is not None
        ready, _, _ = select.select([self._process.stdout], [], [], _START_SECONDS)
        line = self._process.stdout.readline() if ready else b""
        if not line:
            reason = self.log.strip() or f"it was not ready after {_START_SECONDS} s"
            raise TestingError(f"the test server did not start: {reason}")
        return json.loads(line)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def install(url: str) -> None:
    """Bring the schema of SkipMQ into a database, as `skipmq migrate` does; once is enough.

    Raises TestingError when the database is unavailable, or its user has no right to, and
    MissingExtraError when the server is not installed.
    """
    extras.require_server("skipmq.testing.install", "testing")
    from skipmq.database import schema, session  # noqa: PLC0415 - psycopg, only where used.

    try:
        schema.migrate(_DRIVER.sub(r"\1:", url))
    except schema.SchemaError as error:
        raise TestingError(f"the schema cannot be installed: {error}") from error
    except session.Error as error:
        raise TestingError(session.explain(error, "the URL given to install")) from error
