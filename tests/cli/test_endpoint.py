"""Queue commands by HTTP: a real node that checks signatures, and no database in the settings."""

import json
import re
import signal
import socket
import ssl
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from support.certificates import Files
from support.commands import Done, following, invoke
from support.http import SKIPMQ, NodeProcess, environment, eventually, free_port
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node
from support.terminal import Terminal

ABSENT = ("AWS_SESSION_TOKEN", "AWS_REGION", "AWS_DEFAULT_REGION")


@pytest.fixture(scope="module")
def signed(embedded_databases: Databases) -> Iterator[tuple[NodeProcess, Keys, dict[str, str]]]:
    keys = Keys(embedded_databases.migrated())
    key = keys.create()
    with NodeProcess(
        database_url=as_node(keys.url), auth="on", master_key=MASTER_KEY, name_cooldown=0
    ) as node:
        yield node.ready(), keys, key


def variables(made: dict[str, str] | None, **settings: Any) -> dict[str, str]:
    """Return the environment of a laptop: a key, if any, and settings without a database."""
    kept = {name: text for name, text in environment(settings).items() if name[:4] != "AWS_"}
    names = {"key": "AWS_ACCESS_KEY_ID", "secret": "AWS_SECRET_ACCESS_KEY", "token": ABSENT[0]}
    return kept | {"COLUMNS": "200"} | {names[part]: text for part, text in (made or {}).items()}


class Laptop:
    """Runs queue commands by an endpoint."""

    def __init__(self, url: str, made: dict[str, str] | None) -> None:
        self.url, self.made = url, made

    def run(self, *words: str, code: int = 0, text: str = "", **more: str) -> str:
        done = self.invoke(*words, text=text, **more)
        assert done.code == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def invoke(self, *words: str, text: str = "", **more: str) -> Done:
        asked = ("queue", *words, "--endpoint", self.url)
        return invoke(asked, variables(self.made) | more, text)

    def read(self, *words: str) -> Any:
        return json.loads(self.run(*words, "--json"))

    def refused(self, *words: str, code: int = 1, **more: str) -> str:
        """Return the line that a command says that fails."""
        (line,) = self.run(*words, code=code, **more).splitlines()
        return line.removeprefix("skipmq: ")


@pytest.fixture
def laptop(signed: tuple[NodeProcess, Keys, dict[str, str]]) -> Iterator[Laptop]:
    node, _, key = signed
    laptop = Laptop(node.url, key)
    yield laptop
    for name in laptop.read("list", "--names")["names"]:
        laptop.run("delete", name, "--yes")


def test_queue_is_created_listed_shown_set_tagged_and_deleted(laptop: Laptop) -> None:
    laptop.run("create", "orders", "-a", "VisibilityTimeout=60")
    laptop.run("create", "orders.fifo")
    laptop.run("set", "orders", "DelaySeconds=5")
    tags = laptop.read("tag", "orders", "team=shop", "stage=test")
    left = laptop.read("tag", "orders", "--remove", "stage")
    shown = laptop.read("show", "orders")

    assert laptop.read("list", "ord", "--names")["names"] == ["orders", "orders.fifo"]
    assert (shown["visibility_timeout"], shown["delay_seconds"]) == (60, 5)
    assert shown["queue_arn"] == f"arn:aws:sqs:us-east-1:{ACCOUNT}:orders"
    assert (tags["tags"], left["tags"]) == ({"team": "shop", "stage": "test"}, {"team": "shop"})
    assert "deleted queue orders" in laptop.run("delete", "orders", "--yes")
    assert laptop.read("list", "--names")["names"] == ["orders.fifo"]


def test_message_is_sent_peeked_at_received_and_purged(laptop: Laptop) -> None:
    laptop.run("create", "orders")
    sent = laptop.read("send", "orders", "tea", "-a", "tries=Number:3", "-a", "raw=Binary:aGk=")
    peeked = laptop.read("peek", "orders")["messages"]
    received = laptop.read("receive", "orders", "--delete")["messages"]
    consumer = eventually(lambda: laptop.read("consumers", "orders")["consumers"])[0]
    assert (consumer["interface"], consumer["received"]) == ("HTTP", 1)
    assert consumer["access_key_id"] in laptop.run("consumers", "orders")
    empty = laptop.run("receive", "orders", "--wait", "0")
    lines = laptop.run("send", "orders", "--lines", text="one\ntwo\n")
    counted = laptop.read("peek", "orders", "--state", "visible")["messages"]
    laptop.run("purge", "orders", "--yes")

    assert [each["message_id"] for each in peeked] == [sent["message_id"]]
    (message,) = received
    assert (message["body"], message["attributes"]["approximate_receive_count"]) == ("tea", 1)
    assert message["message_attributes"]["tries"]["string_value"] == "3"
    assert message["message_attributes"]["raw"]["binary_value"] == "aGk="
    assert empty.strip() == "no messages"
    assert "sent 2 messages" in lines
    assert [each["body"] for each in counted] == ["one", "two"]
    assert laptop.read("peek", "orders")["messages"] == []
    laptop.run("send", "orders", '{"order": 7}')
    searched = laptop.read("search", "orders", "--path", "$.order == 7")
    assert (searched["found"], searched["messages"][0]["body"]) == (1, '{"order": 7}')
    assert "0 of 1 messages match" in laptop.run("search", "orders", "--body", "coffee")
    timeline = laptop.read("timeline", "orders", sent["message_id"])
    assert [each["event"] for each in timeline["events"]] == ["sent", "first-received", "deleted"]


def test_dead_letters_are_redriven_and_messages_moved(laptop: Laptop) -> None:
    laptop.run("create", "failed")
    policy = {"deadLetterTargetArn": f"arn:aws:sqs:us-east-1:{ACCOUNT}:failed"}
    text = json.dumps(policy | {"maxReceiveCount": 1})
    laptop.run("create", "orders", "-a", f"RedrivePolicy={text}", "-a", "VisibilityTimeout=0")
    laptop.run("send", "orders", "hopeless")
    for _ in range(2):
        laptop.run("receive", "orders", "--wait", "0")
    assert [each["body"] for each in laptop.read("peek", "failed")["messages"]] == ["hopeless"]

    redriven = laptop.run("redrive", "failed", "--yes")
    copied = laptop.run("copy", "orders", f"arn:aws:sqs:us-east-1:{ACCOUNT}:failed")
    moved = laptop.run("move", "orders", "failed", "--body", "hope")
    deleted = laptop.run("delete-matching", "failed", "--body", "hope", "--yes")
    tasks = laptop.read("tasks", "orders")["tasks"]

    assert "1 messages moved from failed: completed" in redriven
    assert "1 messages copied from orders: completed" in copied
    assert "1 messages moved from orders: completed" in moved
    assert "2 messages deleted from failed: completed" in deleted
    assert [(each["kind"], each["status"]) for each in tasks] == [
        ("move", "COMPLETED"),
        ("copy", "COMPLETED"),
    ]


def test_statistics_are_those_of_the_key(laptop: Laptop) -> None:
    for name in ("idle", "busy"):
        laptop.run("create", name)
    laptop.run("send", "busy", "tea", "--count", "12")

    page = laptop.read("stats", "--order", "messages", "--limit", "1")
    every = laptop.read("stats", "--search", "i")
    busy = laptop.read("stats", "busy")
    table = laptop.run("stats", "--order", "messages", "--limit", "1")

    (first,) = page["queues"]
    assert (first["queue"], first["visible"], first["messages"]) == ("busy", 12, 12)
    assert page["others"] == {"queues": 1}
    assert [each["queue"] for each in every["queues"]] == ["idle"]
    assert (busy["queue"], busy["visible"], busy["in_flight"]) == ("busy", 12, 0)
    assert "1 others" in table
    assert "sent" in laptop.run("stats", "busy")


@pytest.mark.parametrize("name", ["orders", "orders.fifo"])
def test_tail_shows_each_new_message_once_and_receives_none(laptop: Laptop, name: str) -> None:
    own = ("--group", "g", "--dedup-id") if name.endswith(".fifo") else ()
    laptop.run("create", name)
    laptop.run("send", name, "old", *own, *(["old"] if own else []))
    bodies = ["one", "two", "x" * 3_000]

    with following(variables(laptop.made, endpoint=laptop.url), name, "--json") as tail:
        assert tail.stdout is not None
        shown = []
        for number, body in enumerate(bodies):
            laptop.run("send", name, body, *own, *([str(number)] if own else []))
            shown.append(json.loads(tail.stdout.readline()))
        tail.send_signal(signal.SIGINT)
        rest, complaint = tail.communicate(timeout=60)

    assert [each["body"] for each in shown] == bodies
    assert [each.get("characters_cut") for each in shown] == [None, None, None]
    assert (rest, tail.returncode) == ("", 130)
    assert json.loads(complaint)["error"]["code"] == "Stopped"
    peeked = laptop.read("peek", name)["messages"]
    assert {each["attributes"]["approximate_receive_count"] for each in peeked} == {0}


def test_top_shows_the_queues_of_the_key(laptop: Laptop) -> None:
    for name in ("a", "b", "busy", "c"):
        laptop.run("create", name)
    laptop.run("send", "busy", "tea", "--count", "12")
    words = [*SKIPMQ, "top", "--interval", "0.5", "--order", "messages", "--endpoint", laptop.url]

    with Terminal(words, variables(laptop.made), (12, 100)) as terminal:
        eventually(lambda: "12 messages" in terminal.screen)
        shown = terminal.screen
        terminal.press("q")
        assert terminal.process.wait(timeout=60) == 0

    assert "  4 queues  12 messages  sent " in shown
    assert "database writable" in " ".join(shown.split())
    assert re.search(r"^busy +12 ", shown, re.MULTILINE)
    assert "1 others" in shown


def test_top_names_an_endpoint_that_stopped_and_goes_on(
    signed: tuple[NodeProcess, Keys, dict[str, str]],
) -> None:
    _, keys, key = signed
    port = free_port()
    settings = {"database_url": as_node(keys.url), "auth": "on", "master_key": MASTER_KEY}
    with NodeProcess(port=port, **settings) as node:
        url = node.ready().url
        words = [*SKIPMQ, "top", "--interval", "0.5", "--endpoint", url]
        terminal = Terminal(words, variables(key), (30, 200))
        with terminal:
            eventually(lambda: "database writable" in " ".join(terminal.screen.split()))
            node.stop()
            eventually(lambda: "cannot be reached" in " ".join(terminal.screen.split()))
            with NodeProcess(port=port, **settings) as again:
                again.ready()
                eventually(lambda: "database writable" in " ".join(terminal.screen.split()))
                terminal.press("q")
                assert terminal.process.wait(timeout=60) == 0


def test_temporary_key_and_its_region_are_used(
    signed: tuple[NodeProcess, Keys, dict[str, str]], laptop: Laptop
) -> None:
    node, keys, key = signed
    session = Laptop(node.url, keys.session(key["key"]))

    eventually(lambda: session.invoke("create", "far", "--region", "eu-central-1").code == 0)
    try:
        assert session.run("list").strip().startswith("no queues")
        assert session.run("list", "--names", AWS_REGION="eu-central-1").strip() == "far"
        assert session.run("list", "--names", SKIPMQ_REGION="eu-central-1").strip() == "far"
        arn = f"arn:aws:sqs:eu-central-1:{ACCOUNT}:far"
        assert session.read("show", arn)["queue_arn"] == arn
        missing = laptop.refused("show", "far")
    finally:
        session.run("delete", "far", "--yes", "--region", "eu-central-1")
    assert missing.startswith("queue far does not exist in the key's account, region us-east-1, at")


def test_refusals_are_one_line_with_the_code_of_sqs(laptop: Laptop) -> None:
    laptop.run("create", "orders")
    wrong = Laptop(laptop.url, {**(laptop.made or {}), "secret": "wrong"})
    unsigned = Laptop(laptop.url, None)

    assert wrong.refused("list").startswith("InvalidSignatureException: The request signature we")
    assert unsigned.refused("list") == (
        "MissingAuthenticationTokenException: Request is missing Authentication Token: set"
        " AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
    )
    assert laptop.refused("set", "orders", "Policy=x").startswith("InvalidAttributeValue: ")
    assert laptop.refused("list", "--account", "210987654321").startswith(
        f"ListQueueStatistics at {laptop.url} is for the key's account alone: leave the account"
    )
    assert laptop.refused("show", "orders", "--account", "210987654321").startswith("AccessDenied")
    assert "leave the region eu-north-1 out" in unsigned.refused("list", "--region", "eu-north-1")


def test_endpoint_that_does_not_answer_is_named_with_the_remedy() -> None:
    url = f"http://127.0.0.1:{free_port()}"

    assert Laptop(url, None).refused("list") == (
        f"{url} cannot be reached (Connection refused): check the address, and that a node listens"
        " there"
    )
    for wrong in ("localhost:9324", "ftp://localhost", "http://localhost:x", "http://h/?q=1"):
        said = Laptop(wrong, None).refused("list")
        assert said == f"{wrong} is not a broker's URL: write https://HOST:PORT"
    said = Laptop("http://user:secret@localhost", None).refused("list", code=2)
    assert "write the URL without a user and a password" in said
    assert "secret" not in said


def test_certificate_is_checked_and_its_authority_can_be_named(node_url: str, files: Files) -> None:
    with files.node(node_url, workers=1) as node:
        node.ready()
        laptop = Laptop(node.url, None)
        plain = node.url.replace("https", "http")

        assert laptop.run("list", SSL_CERT_FILE=str(files.ca)).startswith("no queues yet")
        said = laptop.refused("list")
        assert said.startswith(f"the certificate of {node.url} is not valid here (")
        assert said.endswith("): set SSL_CERT_FILE to the PEM file of the CA that issued it")
        assert Laptop(plain, None).refused("list").startswith(plain)


@pytest.mark.parametrize(
    ("names", "validity", "reason", "remedy"),
    [
        (["127.0.0.1"], {"begins": -2, "ends": -1}, "certificate has expired", "renew it"),
        (["elsewhere"], {}, "not valid for '127.0.0.1'", "write a host name that is in it"),
    ],
    ids=["expired", "other name"],
)
def test_certificate_that_is_not_valid_is_one_sentence(
    files: Files, names: list[str], validity: dict[str, float], reason: str, remedy: str
) -> None:
    files.put(files.authority.issue(*names, **validity))
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(files.settings["tls_certificate"], files.settings["tls_key"])
    with tls_server(server) as url:
        said = Laptop(url, None).invoke("list", SSL_CERT_FILE=str(files.ca)).stderr

    assert said.startswith(f"skipmq: the certificate of {url} is not valid here (")
    assert reason in said
    assert said.endswith(f"): {remedy}\n")
    assert len(said.splitlines()) == 1


@contextmanager
def tls_server(context: ssl.SSLContext) -> Iterator[str]:
    """Give the URL of a server that shakes hands with a certificate, and does nothing else."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def accept() -> None:
            with suppress(OSError), listening.accept()[0] as connection:
                context.wrap_socket(connection, server_side=True).close()

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield f"https://127.0.0.1:{listening.getsockname()[1]}"
        thread.join(timeout=20)


def test_node_that_asks_for_a_certificate_gets_it(
    node_url: str, files: Files, tmp_path: Path
) -> None:
    own, key = tmp_path / "me.pem", tmp_path / "me.key"
    files.authority.issue("me").write(own, key)
    context = files.context()
    context.load_cert_chain(own, key)
    trusted = {"SSL_CERT_FILE": str(files.ca)}
    with NodeProcess(
        database_url=node_url, context=context, tls_client_ca=files.ca, workers=1, **files.settings
    ) as node:
        laptop = Laptop(node.ready().url, None)
        shown = ("--client-certificate", str(own), "--client-key", str(key))

        assert laptop.run("list", *shown, **trusted).startswith("no queues yet")
        variables = {"SKIPMQ_CLIENT_CERTIFICATE": str(own), "SKIPMQ_CLIENT_KEY": str(key)}
        assert laptop.run("list", **trusted, **variables).startswith("no queues yet")
        refused = laptop.invoke("list", **trusted)
        missing = laptop.invoke("list", "--client-certificate", "/nowhere.pem", **trusted)

    assert refused.code == 1
    assert len(refused.stderr.splitlines()) == 1
    assert missing.stderr == (
        "skipmq: the client certificate /nowhere.pem cannot be used (No such file or directory):"
        " name its PEM file, and its key's\n"
    )


def test_throttled_call_is_tried_again(
    signed: tuple[NodeProcess, Keys, dict[str, str]],
) -> None:
    _, keys, key = signed
    with NodeProcess(
        database_url=as_node(keys.url),
        auth="on",
        master_key=MASTER_KEY,
        rate_limit_key=1,
        metrics_main_port="on",
        workers=1,
    ) as node:
        laptop = Laptop(node.ready().url, key)
        for _ in range(4):
            assert laptop.read("list", "--names", "absent") == {"names": []}
        metrics = node.metrics()

    assert re.search(r'"(RequestThrottled|ThrottlingException)"[^}]*} [1-9]', metrics), metrics


def test_tls_with_a_node_without_a_certificate_is_refused(laptop: Laptop) -> None:
    url = laptop.url.replace("http", "https")

    said = Laptop(url, None).refused("list")

    assert said.startswith(f"no TLS with {url} (")
    assert said.endswith("): write http:// if the node has no certificate")
