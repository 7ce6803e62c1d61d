"""TLS at the node: who may connect, and what it says of certificates."""

import json
import re
import shlex
import socket
import ssl
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import psycopg
import pytest
from botocore.exceptions import HTTPClientError, SSLError
from cryptography.hazmat.primitives.asymmetric import dsa, rsa
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from local_cluster.certificates import Authority
from skipmq.server.http.listener import SPARE
from support.certificates import Files, shown
from support.commands import invoke
from support.hang_ups import connections_held
from support.http import NodeProcess, client, environment, eventually, free_port, raw
from support.postgres import Databases

# What botocore says of a connection that is broken off, at one time or another.
BROKEN_OFF = (HTTPClientError, SSLError)


def test_sqs_is_served_over_tls_alone(node_url: str, files: Files) -> None:
    with files.node(node_url, workers=1) as node:
        sqs = client(f"https://localhost:{node.port}", ca=files.ca)
        queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
        sqs.send_message(QueueUrl=queue, MessageBody="hello")
        (message,) = sqs.receive_message(QueueUrl=queue)["Messages"]
        with pytest.raises(BROKEN_OFF):
            client(f"http://localhost:{node.port}").list_queues()
        with pytest.raises(SSLError):
            client(f"https://localhost:{node.port}").list_queues()
        old = files.context()
        old.maximum_version = ssl.TLSVersion.TLSv1_2

        assert shown(node.port, old)
        said = eventually(lambda: [line for line in node.lines if "serves SQS at" in line])[0]

    assert queue == f"https://localhost:{node.port}/000000000000/orders"
    assert f"https://localhost:{node.port}" in said
    assert message["Body"] == "hello"


def test_answers_over_tls_keep_browsers_on_it(node_url: str, files: Files) -> None:
    with files.node(node_url, workers=1) as node:
        found = {}
        for host in ("127.0.0.1", "localhost"):
            for path in ("/health/live", "/console/", "/?Action=ListQueues"):
                request = urllib.request.Request(node.url + path, headers={"Host": host})
                with urllib.request.urlopen(request, context=files.context()) as answer:
                    found[host, path] = answer.headers["Strict-Transport-Security"]

    assert {value for (host, _), value in found.items() if host == "127.0.0.1"} == {
        "max-age=31536000"
    }
    assert {value for (host, _), value in found.items() if host == "localhost"} == {None}


def test_clients_must_show_a_certificate_where_the_node_asks_for_one(
    node_url: str, files: Files, tmp_path: Path
) -> None:
    own, foreign = (tmp_path / "client.pem"), (tmp_path / "foreign.pem")
    files.issue().write(own, own)
    Authority().issue("localhost").write(foreign, foreign)
    settings = {"tls_client_ca": files.ca, "metrics_port": free_port()}
    context = files.context()
    context.load_cert_chain(own)
    with NodeProcess(
        database_url=node_url, workers=1, context=context, **files.settings, **settings
    ) as node:
        node.ready()
        url = f"https://localhost:{node.port}"

        client(url, ca=files.ca, certificate=(str(own), str(own))).list_queues()
        with pytest.raises(BROKEN_OFF):
            client(url, ca=files.ca).list_queues()
        with pytest.raises(BROKEN_OFF):
            client(url, ca=files.ca, certificate=(str(foreign), str(foreign))).list_queues()

        # Whoever has no certificate for it probes the node on the other port.
        assert node.metric("skipmq_refused_total") == 0


def test_connections_count_before_their_handshake(node_url: str, files: Files) -> None:
    with ExitStack() as stack, files.node(node_url, workers=1, max_connections=16) as node:
        clients = [
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=40))
            for _ in range(100)
        ]
        # The last one's own certificate is shown when all before it have been accepted.
        assert shown(node.port, files.context())

        held = connections_held(node.workers(), clients)
        assert 16 < held <= 16 + SPARE
        assert status(node, files, "live") == 200
        assert status(node, files, "ready") == 503

        for each in clients:
            each.close()
        eventually(lambda: status(node, files, "ready") == 200)


def test_node_keeps_descriptors_for_itself(
    embedded_databases: Databases, node_url: str, files: Files
) -> None:
    few = FewFiles(
        database_url=node_url,
        context=files.context(),
        metrics_port=free_port(),
        **files.settings,
    )
    with few as node, ExitStack() as stack, psycopg.connect(embedded_databases.server.url) as admin:
        node.ready()
        for _ in range(FewFiles.LIMIT + 50):
            stack.enter_context(socket.create_connection(("127.0.0.1", node.port), timeout=40))
        assert shown(node.port, files.context())

        # It has to open connections to the database again.
        name = psycopg.conninfo.conninfo_to_dict(node_url)["dbname"]
        ended = admin.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity"
            " where datname = %s and usename = 'skipmq_node'",
            (name,),
        ).fetchall()

        assert len(ended) > 0
        eventually(lambda: raw(f"{node.probes_url}/health/ready").status == 200)
        assert node.metric("skipmq_refused_total") == 0
    assert "Too many open files" not in node.log


class FewFiles(NodeProcess):
    """A node that may open few files."""

    LIMIT = 400

    def command(self, *options: str) -> list[str]:
        node = shlex.join(super().command(*options))
        return ["bash", "-c", f"ulimit -n {self.LIMIT}; exec {node}"]


def status(node: NodeProcess, files: Files, path: str) -> int:
    """Return the status of /health/live or /health/ready."""
    try:
        with urllib.request.urlopen(f"{node.url}/health/{path}", context=files.context()) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def no_key(files: Files) -> None:
    Path(files.settings["tls_key"]).unlink()


def key_with_password(files: Files) -> None:
    path = Path(files.settings["tls_key"])
    key = load_pem_private_key(path.read_bytes(), None)
    path.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    )


def key_of_another_kind(files: Files) -> None:
    key = dsa.generate_private_key(2048)
    Path(files.settings["tls_key"]).write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    )


BROKEN = {
    "key of another": (Files.mix, "key.pem: this is not the key of the first certificate"),
    "no key": (no_key, "key.pem cannot be read: No such file or directory"),
    "half a certificate": (Files.cut, "not a certificate in PEM format"),
    "key with a password": (key_with_password, "openssl pkey -in"),
    "key of another kind": (key_of_another_kind, "unsupported type of key: create one for ECDSA"),
}


@pytest.mark.parametrize(("spoil", "expected"), BROKEN.values(), ids=BROKEN)
def test_certificate_that_cannot_be_used_is_one_line(
    files: Files, spoil: Callable[[Files], None], expected: str
) -> None:
    spoil(files)

    assert expected in refused(files.settings)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"tls_certificate": "a.pem"}, "SKIPMQ_TLS_KEY"),
        ({"tls_key": "a.pem"}, "SKIPMQ_TLS_CERTIFICATE"),
        ({"tls_client_ca": "a.pem"}, "SKIPMQ_TLS_CERTIFICATE"),
    ],
)
def test_setting_of_tls_that_lacks_another_names_it(
    settings: dict[str, str], expected: str
) -> None:
    assert f"in {expected}" in refused(settings)


def refused(settings: dict[str, str]) -> str:
    """Return the one line with which a node refuses to start."""
    settings = {**settings, "port": str(free_port()), "database_url": "postgresql://x"}
    done = invoke(("serve",), environment(settings))
    (line,) = done.stderr.strip().splitlines()
    assert (done.code, line.startswith("skipmq: ")) == (1, True), line
    return line


def test_expired_certificate_is_served_and_complained_of_with_its_date(
    node_url: str, files: Files
) -> None:
    files.put(files.issue(begins=-10, ends=-1))
    context = files.context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    with NodeProcess(database_url=node_url, workers=1, context=context, **files.settings) as node:
        node.ready()

    assert re.search(r"the certificate expired on 20\d\d-\d\d-\d\d \d\d:\d\d UTC", node.log)


def test_rsa_key_of_another_form_is_served(node_url: str, files: Files) -> None:
    # As `openssl genrsa -traditional` writes them, and with the key in the certificate's file.
    key = rsa.generate_private_key(65537, 2048)
    own = files.authority.sign(key.public_key(), "localhost", "127.0.0.1")
    traditional = key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    for path in files.settings.values():
        Path(path).write_bytes(traditional + own)

    with files.node(node_url, workers=1):
        pass


@pytest.mark.parametrize(
    ("ends", "ok", "said"),
    [(13, False, "the certificate expires on"), (15, True, "valid until"), (-1, False, "expired")],
)
def test_doctor_warns_of_a_certificate_that_ends_soon(
    node_url: str, files: Files, ends: float, ok: bool, said: str
) -> None:
    files.put(files.issue(begins=-30, ends=ends))

    settings = {"database_url": node_url, "port": free_port(), **files.settings}
    done = invoke(("doctor", "--json"), environment(settings))

    (finding,) = [f for f in json.loads(done.stdout)["checks"] if f["check"] == "certificate"]
    assert (finding["ok"], done.code) == (ok, 0 if ok else 1)
    assert said in finding["detail"]


def test_keys_lie_where_nobody_else_reads_them_and_no_longer_than_the_node_runs(
    node_url: str, files: Files, tmp_path: Path
) -> None:
    place = tmp_path / "tmp"
    place.mkdir()
    with files.node(node_url, workers=1, variables={"TMPDIR": str(place)}):
        (staged,) = place.glob("*/certificate.pem")
        modes = [path.stat().st_mode & 0o777 for path in (staged, staged.parent)]

    assert modes == [0o600, 0o700]
    assert list(place.iterdir()) == []
