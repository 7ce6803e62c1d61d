"""HAProxy with the shipped file and TLS to clients and to the node; what it says of clients."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPMessage, HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from local_cluster.certificates import Authority
from support.balancer import started
from support.http import NodeProcess, client, eventually
from support.postgres import Databases, as_node
from support.programs import need

NAME = "nodes.example"
FORGED = {
    "Forwarded": "for=10.9.9.9",
    "X-Forwarded-For": "10.9.9.9",
    "X-Forwarded-Proto": "gopher",
    "X-Forwarded-Host": "elsewhere.example",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give a folder with the certificates: of the balancer, of the node, and what it shows it."""
    folder = tmp_path_factory.mktemp("certificates")
    for name, names in {
        "balancer": ("localhost", "127.0.0.1"),
        "node": (NAME, "127.0.0.1"),
    }.items():
        authority = Authority(name)
        (folder / f"{name}-ca.pem").write_bytes(authority.pem)
        authority.issue(*names).write(folder / f"{name}.pem", folder / f"{name}.pem")
    authority.issue("balancer").write(folder / "shown.pem", folder / "shown.pem")
    return folder


@pytest.fixture(scope="module")
def context(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=folder / "balancer-ca.pem")


@pytest.fixture(scope="module")
def node(embedded_databases: Databases, folder: Path) -> Iterator[NodeProcess]:
    """Give a node that wants a certificate of whoever connects."""
    context = ssl.create_default_context(cafile=folder / "node-ca.pem")
    context.load_cert_chain(folder / "shown.pem")
    with NodeProcess(
        database_url=as_node(embedded_databases.migrated()),
        workers=1,
        context=context,
        tls_certificate=folder / "node.pem",
        tls_key=folder / "node.pem",
        tls_client_ca=folder / "node-ca.pem",
    ) as process:
        yield process.ready()


@pytest.fixture(scope="module")
def variables(folder: Path) -> dict[str, str | Path]:
    return {
        "CERTIFICATE": folder / "balancer.pem",
        "NODE_CA": folder / "node-ca.pem",
        "NODE_NAME": NAME,
        "NODE_CERTIFICATE": folder / "shown.pem",
    }


@pytest.fixture(scope="module")
def balancer(
    node: NodeProcess, context: ssl.SSLContext, variables: dict[str, str | Path]
) -> Iterator[int]:
    with started(node.port, **variables) as port:
        eventually(lambda: status(port, context) == 200)
        yield port


def status(port: int, context: ssl.SSLContext, path: str = "/health/ready") -> int:
    """Return the status of an answer; 0 while nobody listens."""
    connection = HTTPSConnection("localhost", port, timeout=20, context=context)
    with suppress(ConnectionRefusedError):
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status
    return 0


def curl(folder: Path, url: str, *words: str) -> str:
    need("curl")
    command = ["curl", "-sS", "--max-time", "20", "--cacert", folder / "balancer-ca.pem"]
    return subprocess.run(
        [*command, *words, url], check=True, capture_output=True, text=True
    ).stdout


def test_boto3_works_over_https_at_both_sides(balancer: int, folder: Path) -> None:
    url = f"https://localhost:{balancer}"
    sqs = client(url, ca=folder / "balancer-ca.pem", tries=5)

    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="hello")
    (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]

    assert queue.startswith(url)
    assert message["Body"] == "hello"


def test_browsers_are_kept_to_https_and_offered_http_2(balancer: int, folder: Path) -> None:
    url = f"https://localhost:{balancer}"
    new = curl(folder, f"{url}/health/ready", "--http2", "-D-", "-o/dev/null")
    old = curl(folder, f"{url}/health/ready", "--http1.1", "-D-", "-o/dev/null")
    refused = curl(folder, f"{url}/metrics", "--http2", "-D-", "-o/dev/null")

    assert [text.split()[:2] for text in (new, old, refused)] == [
        ["HTTP/2", "200"],
        ["HTTP/1.1", "200"],
        ["HTTP/2", "404"],
    ]
    for text in (new, old, refused):
        assert "strict-transport-security: max-age=31536000" in text.lower()


def test_port_takes_tls_alone(balancer: int) -> None:
    with socket.create_connection(("127.0.0.1", balancer), timeout=20) as connection:
        connection.sendall(b"GET /health/ready HTTP/1.1\r\nHost: a\r\n\r\n")

        assert not connection.recv(4096).startswith(b"HTTP")


@pytest.mark.parametrize(
    "wrong", [{"NODE_CA": "balancer-ca.pem"}, {"NODE_NAME": "other.example"}], ids=str
)
def test_node_with_a_certificate_of_somebody_else_gets_no_request(
    node: NodeProcess,
    folder: Path,
    context: ssl.SSLContext,
    variables: dict[str, str | Path],
    wrong: dict[str, str],
) -> None:
    changed = {k: folder / v if v.endswith(".pem") else v for k, v in wrong.items()}
    with started(node.port, **variables | changed) as port:
        # From the start until HAProxy has asked the node for its health it takes it for ready.
        eventually(lambda: status(port, context) == 503)

        assert status(port, context, "/") == 503


@contextmanager
def recorder() -> Iterator[tuple[int, list[tuple[str, HTTPMessage]]]]:
    """Give the port of a server behind the balancer, and the requests that come there."""
    seen: list[tuple[str, HTTPMessage]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path != "/health/ready":
                seen.append((self.path, self.headers))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_port, seen
        server.shutdown()


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_what_a_client_forges_of_itself_is_replaced(
    folder: Path, context: ssl.SSLContext, scheme: str
) -> None:
    variables = {"CERTIFICATE": folder / "balancer.pem"} if scheme == "https" else {}
    with recorder() as (node, seen), started(node, **variables) as port:
        connection = (
            HTTPSConnection("localhost", port, timeout=20, context=context)
            if scheme == "https"
            else HTTPConnection("localhost", port, timeout=20)
        )

        def asked() -> bool:
            with suppress(ConnectionRefusedError):
                connection.request("GET", "/", headers=FORGED)
                connection.getresponse().read()
            connection.close()
            return bool(seen)

        eventually(asked)
        for path in ("/metrics", "/metrics/", "/%6detrics", "/metrics?name[]=x"):
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            assert answer.status == 404
        connection.close()

    (path, headers), *others = seen
    assert (path, others) == ("/", [])
    assert headers.get_all("X-Forwarded-For") == ["127.0.0.1"]
    assert headers.get_all("X-Forwarded-Proto") == [scheme]
    assert (headers["X-Forwarded-Host"], headers["Forwarded"]) == (None, None)
