"""Node processes, and clients that speak either wire."""

import atexit
import contextlib
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from itertools import cycle
from pathlib import Path
from typing import Any, Self

import botocore.session
import psutil
from botocore.config import Config

from skipmq.telemetry.metrics_folder import INTERVAL
from support.forks import Forked
from support.processes import is_alive

ROOT = Path(__file__).resolve().parent.parent.parent
SKIPMQ = [sys.executable, "-m", "skipmq"]
QUERY_MODEL = ROOT / ".cache" / "clients" / "boto3_query" / "botocore" / "data"
# The member of ReceiveMessage that is younger than that model.
QUERY_EXTRAS = Path(__file__).parent / "botocore"
ACCOUNT = "000000000000"


def free_port() -> int:
    """Return a port that nothing listens on, held so that nobody else is given it meanwhile.

    A server that sets SO_REUSEADDR, as servers do, may take it: what holds it does not listen.
    """
    holder = socket.socket()
    holder.bind(("127.0.0.1", 0))
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    atexit.register(holder.close)
    port: int = holder.getsockname()[1]
    return port


def environment(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment of a command: this one's, with these settings and no others."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith("SKIPMQ_")}  # noqa: TID251
    return kept | {f"SKIPMQ_{key.upper()}": str(value) for key, value in settings.items()}


def eventually(condition: Callable[[], Any], seconds: float = 120, why: str = "") -> Any:
    """Return the condition's first true value; fail when it does not come.

    What takes longer is asked for less often: the processors are needed for what is waited for.
    """
    begun = time.monotonic()
    while not (value := condition()):
        waited = time.monotonic() - begun
        if waited > seconds:
            raise AssertionError(f"not within {seconds} s: {why or condition}")
        threading.Event().wait(min(max(0.02, waited / 20), 0.1))
    return value


def _value(metrics: str, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", metrics, re.MULTILINE)
    assert found, metrics
    return float(found[1])


class NodeProcess:
    """A `skipmq serve` process: of one worker, whatever the machine, unless a test says more."""

    def __init__(
        self,
        *options: str,
        variables: Mapping[str, str] | None = None,
        context: ssl.SSLContext | None = None,
        program: Sequence[str] = SKIPMQ,
        **settings: Any,
    ) -> None:
        self._program = program
        self.port = int(settings.setdefault("port", free_port()))
        self.url = f"{'https' if context else 'http'}://127.0.0.1:{self.port}"
        self.probes_url = self.url
        if port := settings.get("metrics_port"):
            self.probes_url = f"http://127.0.0.1:{port}"
        self._context = context
        self._is_alone = int(settings.setdefault("workers", 1)) == 1
        self.owner_url = ""
        # Who vouches for its certificate.
        self.ca: Path | None = None
        # Those of the interpreter concern one that starts.
        is_about_start = any(name.startswith("PYTHON") for name in variables or ())
        start = subprocess.Popen[str] if is_about_start else Forked
        self.process = start(
            self.command(*options),
            env=environment(settings) | dict(variables or {}),
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def command(self, *options: str) -> list[str]:
        return [*self._program, "serve", *options]

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.lines.append(line.rstrip())

    @property
    def log(self) -> str:
        return "\n".join(self.lines)

    def ready(self) -> Self:
        """Wait until the node takes requests."""
        eventually(self._answers, why=f"ready; the node said:\n{self.log}")
        return self

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the node ended:\n{self.log}")
        try:
            url = self.url + "/health/ready"
            with urllib.request.urlopen(url, timeout=5, context=self._context) as response:
                return bool(response.status == 200)
        except OSError:
            return False

    def metrics(self, accept: str = "text/plain") -> str:
        """Return the metrics, as all processes of the node published them after the call."""
        called = time.monotonic()
        headers = {"Accept": accept}

        def published() -> str:
            asked = time.monotonic()
            request = urllib.request.Request(self.probes_url + "/metrics", headers=headers)
            with urllib.request.urlopen(request, timeout=30, context=self._context) as response:
                text = str(response.read().decode())
            age = _value(text, "skipmq_metrics_age_seconds")
            if asked - age >= called:
                return text
            # Until then there is nothing new.
            threading.Event().wait(max(0.0, INTERVAL - age))
            return ""

        return str(eventually(published))

    def metric(self, name: str) -> float:
        """Return what a metric says, as all processes of the node published it after the call."""
        return _value(self.metrics(), name)

    def workers(self) -> list[psutil.Process]:
        """Return the processes that serve and are alive: the node's own where it has one worker."""
        main = psutil.Process(self.process.pid)
        if self._is_alone:
            return [main]
        found = []
        for child in main.children():
            # One may end while it is looked at.
            with contextlib.suppress(psutil.NoSuchProcess):
                if child.cmdline() == main.cmdline() and is_alive(child.pid):
                    found.append(child)
        return found

    def stop(self) -> int:
        """Stop it as an operator would; return its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout=60)

    def kill(self) -> None:
        """Kill every process of the node at once, as a dying machine would."""
        workers = psutil.Process(self.process.pid).children(recursive=True)
        self.process.kill()
        for worker in workers:
            with contextlib.suppress(psutil.NoSuchProcess):
                worker.kill()
        self.process.wait(timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.stop()
        self._reader.join(timeout=60)
        assert self.process.stderr is not None
        self.process.stderr.close()


class WsgiProcess(NodeProcess):
    """The Flask application of a node under gunicorn."""

    def __init__(self, *options: str, **settings: Any) -> None:
        # It cannot know that it listens on loopback only.
        settings.setdefault("auth", "off")
        super().__init__(*options, **settings)

    def command(self, *options: str) -> list[str]:
        del options
        server = [sys.executable, "-m", "gunicorn", "--bind", f"127.0.0.1:{self.port}"]
        server += ["--threads", "64", "--limit-request-field_size", "65536"]
        # Its two seconds may end while a request is on its way.
        server += ["--keep-alive", "600"]
        return [*server, "skipmq.wsgi:application()"]


@cache
def _session(wire: str) -> botocore.session.Session:
    session = botocore.session.Session()
    if wire == "query":
        # The last model of SQS in the Query protocol turns any botocore into a Query client.
        assert QUERY_MODEL.exists(), "run `make clients`, which installs the Query model"
        session.set_config_variable("data_path", f"{QUERY_EXTRAS}{os.pathsep}{QUERY_MODEL}")
    session.set_credentials("key", "secret")
    return session


def client(
    url: str,
    wire: str = "json",
    *,
    key: str = "key",
    secret: str = "secret",  # noqa: S107 - of a temporary broker.
    token: str | None = None,
    region: str = "us-east-1",
    tries: int = 1,
    ca: Path | None = None,
    certificate: tuple[str, str] | None = None,
    service: str = "sqs",
) -> Any:
    """Return a client, of SQS or SNS, that tries each request once, or as often as is said.

    Over TLS it trusts `ca`, and shows a certificate (its file and that of its key) if it has one.
    """
    found = _session(wire).create_client(
        service,
        endpoint_url=url,
        region_name=region,
        aws_access_key_id=key,
        aws_secret_access_key=secret,
        aws_session_token=token,
        verify=str(ca) if ca else None,
        config=Config(
            client_cert=certificate,
            retries={"mode": "standard", "total_max_attempts": tries},
            max_pool_connections=50,
            read_timeout=40,
        ),
    )
    expected = "query" if wire == "query" else "json"
    assert found.meta.service_model.metadata["protocol"] == expected
    return found


class Alternating:
    """A client whose calls go to several nodes in turn, as through a load balancer."""

    def __init__(self, *clients: Any) -> None:
        self._turns = cycle(clients)
        self.exceptions = clients[0].exceptions

    def __getattr__(self, action: str) -> Any:
        return getattr(next(self._turns), action)


class Answer:
    """An HTTP answer, whatever its status."""

    def __init__(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
        self.status, self.headers, self.body = status, headers, body.decode()


def raw(
    url: str, body: bytes | None = None, headers: Mapping[str, str] | None = None, method: str = ""
) -> Answer:
    """Send a request as it is."""
    request = urllib.request.Request(
        url, data=body, headers=dict(headers or {}), method=method or None
    )
    try:
        with urllib.request.urlopen(request, timeout=40) as response:
            return Answer(response.status, response.headers, response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, error.headers, error.read())


def extension(url: str, action: str, status: int = 200, **parameters: Any) -> dict[str, Any]:
    """Run an action beyond SQS without a signature, and return its answer.

    Those that read have little time, and are run again when a machine that stood still took it.
    """
    headers = {"X-Amz-Target": f"SkipMQ.{action}", "Content-Type": "application/x-amz-json-1.0"}
    body = json.dumps(parameters).encode()
    answer = raw(url, body, headers)
    if answer.status == 503 != status and action.startswith(("Get", "List", "Peek", "Search")):
        answer = eventually(lambda: (again := raw(url, body, headers)).status != 503 and again)
    assert answer.status == status, answer.body
    return dict(json.loads(answer.body))
