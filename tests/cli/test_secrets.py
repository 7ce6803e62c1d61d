"""No secret leaves a program: every command, right and mistyped, a node that serves and fails."""

import json
import re
import urllib.error
import urllib.request
from base64 import b64encode
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import click
import psutil
import psycopg
import pytest
from botocore.exceptions import ClientError

from skipmq import cli
from skipmq.database import embedded
from support import forks, servers
from support.analytics import SHORT_LIVED
from support.command_lines import PASSWORD, commands
from support.commands import invoke, loaded
from support.http import SKIPMQ, NodeProcess, client, environment, eventually, free_port
from support.key_commands import Keys
from support.postgres import Databases
from support.proxy import Proxy

READERS = "Pl4ntedReaders"
MASTER_KEY = b64encode(b"Planted: a key of exactly 32 byt").decode()
BODY, ATTRIBUTE, TOKEN, WRONG = "Pl4ntedBody", "Pl4ntedAttr", "Pl4ntedToken", "Pl4ntedWrong"
# A part of a password that libpq took for another parameter is shown as such.
PARTS = {PASSWORD, "Pl4nted", "Passw0rd"}
PLANTED = {*PARTS, READERS, MASTER_KEY, BODY, ATTRIBUTE, TOKEN, WRONG}

MISTYPED = {
    "port": "postgresql://user:{}@host:port/db",
    "large port": "postgresql://user:{}@127.0.0.1:99999/db",
    "escape": "postgresql://user:{}%zz@127.0.0.1:1/db",
    "scheme": "postgres+psycopg://user:{}@127.0.0.1:1/db",
    "other scheme": "mysql://user:{}@127.0.0.1:1/db",
    "one slash": "postgresql:/user:{}@127.0.0.1:1/db",
    "JDBC": "jdbc:postgresql://127.0.0.1:1/db?user=u&password={}",
    "bracket": "postgresql://user:{}@[::1/db",
    "space": "postgresql://user:{} x@127.0.0.1:1/db",
    "no at": "postgresql://user:{}/db",
    "at in the password": "postgresql://user:a@{}@127.0.0.1:1/db",
    "slash in the password": "postgresql://user:{}/x@127.0.0.1:1/db",
    "figures and a slash": "postgresql://user:12/{}@127.0.0.1:1/db",
    "parameter": "postgresql://user@127.0.0.1:1/db?passwort={}",
    "keyword": "host=127.0.0.1 port=1 passwort={}",
    "keyword with a space": "host=127.0.0.1 port=1 password=a {}",
    "keyword with a space and =": "host=127.0.0.1 port=1 password=a {}=b",
    "quote": "host=127.0.0.1 port=1 password='{}",
    "commas": "host=127.0.0.1,port=1,password={}",
    "semicolons": "host=127.0.0.1;password={}",
    "bare": "{}",
}
UNREACHABLE = {
    "refused": "postgresql://user:{}@127.0.0.1:1/db",
    "keywords": "host=127.0.0.1 port=1 password={}",
    "query": "postgresql://user@127.0.0.1:1/db?password={}&sslmode=disable",
    "no host": "postgresql://user:{}@nowhere.invalid/db",
    "mode": "postgresql://user:{}@127.0.0.1:1/db?sslmode=some",
}

# What starts other programs, which write to the terminal too, or configures the whole process.
IN_A_PROCESS = {"analytics", "doctor", "psql", "serve", "work"}

# PostgreSQL itself quotes the whole row in the detail of some errors.
FAILING = """
create function fail() returns trigger language plpgsql as $$
begin
  raise exception 'no' using detail = 'failing row contains ' || new.body;
end
$$;
create trigger fail before insert on skipmq.message for each row execute function fail();
"""


def clean(text: str, planted: set[str] = PLANTED) -> str:
    """Fail when a text has something planted, whatever its case or its line ends."""
    bare = "".join(text.split()).lower()
    assert [secret for secret in planted if secret.lower() in bare] == []
    return text


def run(*words: str, code: int | None = None, **settings: object) -> str:
    """Run a command; return what it printed, which has no secret in it."""
    variables = environment(settings) | {"COLUMNS": "250", "PYSPARK_SUBMIT_ARGS": SHORT_LIVED}
    if not {*words} & IN_A_PROCESS:
        here = invoke(words, variables)
        assert code is None or here.code == code, here
        return clean(here.stdout + here.stderr)
    done = forks.run([*SKIPMQ, *words], variables, seconds=300)
    said = done.stdout + done.stderr
    assert code is None or done.returncode == code, said
    assert "Traceback" not in said
    return clean(said)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_text(PASSWORD)
    return tmp_path


def _ways() -> Iterator[Any]:
    """Yield commands, settings and their origins; slow are those of which parts are in others."""
    for command in ("serve", "config", "doctor"):
        for setting in ("database_url", "analytics_url"):
            for origin in ("variable", "file of the secret", "TOML"):
                is_fast = command == "config" or (setting, origin) == ("database_url", "variable")
                marks = [] if is_fast else [pytest.mark.slow]
                yield pytest.param(command, setting, origin, marks=marks)


@pytest.mark.parametrize("name", [*MISTYPED, *UNREACHABLE])
@pytest.mark.parametrize(("command", "setting", "origin"), [*_ways()])
def test_mistyped_url_is_refused_without_its_password(
    place: Path, name: str, command: str, setting: str, origin: str
) -> None:
    url = (MISTYPED | UNREACHABLE)[name].format(PASSWORD)
    settings: dict[str, object] = {"port": free_port()}
    if setting == "analytics_url":
        settings["database_url"] = f"postgresql://u:{READERS}@127.0.0.1:1/db"
    words = [command]
    match origin:
        case "variable":
            settings[setting] = url
        case "TOML":
            (place / "skipmq.toml").write_text(f"{setting} = {json.dumps(url)}\n")
            words[:0] = ["--config", str(place / "skipmq.toml")]
        case _:
            (place / "url").write_text(url)
            settings[f"{setting}_file"] = place / "url"

    status, *printed = invoke(tuple(words), environment(settings) | {"COLUMNS": "250"})

    said = clean("".join(map(str, printed)))
    if name in MISTYPED:
        assert status == 2
        assert "postgresql://USER:PASSWORD@HOST:PORT/DATABASE" in said
        assert (setting in said) or (setting.upper() in said)
    elif command == "config":
        assert (status, "***" in said) == (0, True)
    else:
        assert status == 1


@pytest.mark.parametrize("name", ["database_url", "analytics_url", "master_key"])
def test_secret_in_the_place_of_its_file_is_not_shown(name: str) -> None:
    for command in ("serve", "config"):
        said = run(command, code=2, **{f"{name}_file": f"postgresql://u:{PASSWORD}@h/d"})
        assert f"SKIPMQ_{name.upper()}_FILE" in said


def test_toml_without_quotes_is_not_shown(place: Path) -> None:
    file = place / "skipmq.toml"
    for text in (
        f"database_url = postgresql://u:{PASSWORD}@h/d",
        f'database_url = "postgresql://u:{PASSWORD}@h/d',
        f"master_key = [{json.dumps(MASTER_KEY)}]",
    ):
        file.write_text(text)
        assert str(file) in run("--config", str(file), "config", code=2)


@pytest.fixture(scope="module")
def server(server_folder: Path) -> Iterator[embedded.Server]:
    """Give a server that asks the owner and the nodes for passwords."""
    with servers.start(server_folder / "secretive", ephemeral=True, migrated=True) as found:
        yield found


@pytest.fixture(scope="module")
def owner_url(server: embedded.Server) -> str:
    """Give the URL of a database with a schema, of its owner, who does not need a password."""
    url = Databases(server).migrated()
    with psycopg.connect(url, autocommit=True) as owner:
        owner.execute(f"create role secretive login superuser password '{PASSWORD}'".encode())
        row = owner.execute("show hba_file").fetchone()
        assert row is not None
        rules = Path(row[0])
        rules.write_text(f"local all secretive scram-sha-256\n{rules.read_text()}")
        owner.execute("select pg_reload_conf()")
        eventually(lambda: _is_refused(with_password(url, WRONG)))
    return url


def _is_refused(url: str) -> bool:
    try:
        psycopg.connect(url).close()
    except psycopg.OperationalError:
        return True
    return False


def with_password(url: str, password: str = PASSWORD, **others: Any) -> str:
    return psycopg.conninfo.make_conninfo(url, user="secretive", password=password, **others)


def rightly(url: str) -> dict[str, object]:
    """Return the settings of a command with the passwords that the server asks for."""
    urls = dict.fromkeys(("database_url", "analytics_url"), with_password(url))
    return urls | {"master_key": MASTER_KEY, "port": free_port()}


def test_no_command_shows_a_secret(owner_url: str, place: Path) -> None:
    # Those that start Spark, which most of the analytics do, have a test of their own.
    given, right = commands(place), rightly(owner_url)
    wrong = right | {"database_url": with_password(owner_url, WRONG)}
    said = {}
    for words, arguments in given.items():
        if not words.startswith("analytics "):
            more = arguments if words != "serve" else ["--fly"]
            said[words] = run(*words.split(), *more, **right)

    for words in ("migrate", "serve", "doctor", "queue list", "keys list", "analytics reconcile"):
        refused = run(*words.split(), **wrong)
        assert "password authentication failed" in refused or "PySpark" in refused, words
    for words in ("serve", "config", "keys list", "queue list"):
        run(*words.split(), code=2, **right | {"master_key": PASSWORD})
        run(*words.split(), f"--password={PASSWORD[:3]}", code=2, **right)

    assert set(given) == {
        words for words, each in loaded(cli.cli) if not isinstance(each, click.Group)
    }
    assert "***" in said["config"]
    assert "orders" in said["queue create"]


@pytest.mark.slow  # One command starts Spark: the others share what it does.
def test_spark_shows_no_secret(owner_url: str, place: Path) -> None:
    run("analytics", "export", *commands(place)["analytics export"], **rightly(owner_url))


def presigned(url: str, key: dict[str, str]) -> str:
    signer = client(url, "query", **key)
    return str(signer.generate_presigned_url("list_queues", HttpMethod="GET"))


def answered(url: str) -> tuple[int, str]:
    """Return the status and the body of an answer."""
    try:
        with urllib.request.urlopen(url, timeout=20) as answer:
            return int(answer.status), str(answer.read().decode())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, str(error.read().decode())


def sent(sqs: Any, queue: str) -> str:
    """Send, receive and delete a message; return the code of the error that was met."""
    value = {"DataType": "String", "StringValue": ATTRIBUTE}
    try:
        sqs.send_message(QueueUrl=queue, MessageBody=BODY, MessageAttributes={"a": value})
        (message,) = sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=5)["Messages"]
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def test_no_secret_is_in_what_a_node_shows(
    owner_url: str, server: embedded.Server, capfd: pytest.CaptureFixture[str]
) -> None:
    keys = Keys(owner_url, MASTER_KEY)
    key = keys.create()
    session = keys.session(keys.create()["key"])
    parts = psycopg.conninfo.conninfo_to_dict(server.url)
    socket = Path(str(parts["host"])) / ".s.PGSQL.5432"
    planted = PLANTED | {key["secret"], session["secret"], session["token"]}
    with ExitStack() as network:
        proxy = network.enter_context(Proxy(socket))
        settings = {
            "database_url": with_password(owner_url, host="127.0.0.1", port=proxy.port),
            "analytics_url": with_password(owner_url, READERS),
            "master_key": MASTER_KEY,
            "failover_wait": 0,
        }
        with NodeProcess(
            auth="on", workers=1, log_level="debug", metrics_main_port="on", **settings
        ) as node:
            node.ready()
            wires = ("json", "query")
            good = [client(node.url, wire, **of) for wire in wires for of in (key, session)]
            queue = good[0].create_queue(QueueName="secretive")["QueueUrl"]
            assert [sent(sqs, queue) for sqs in good] == [""] * 4
            bad = [
                client(node.url, key=key["key"], secret=WRONG),
                client(node.url, key=WRONG, secret=WRONG),
                client(node.url, **session | {"token": TOKEN}),
                client(node.url, "query", **session | {"token": TOKEN}),
            ]
            assert all(sent(sqs, queue) for sqs in bad)
            assert answered(presigned(node.url, session))[0] == 200
            assert answered(presigned(node.url, session | {"token": TOKEN}))[0] == 403
            assert answered(f"{node.url}/?Action=SendMessage&MessageBody={BODY}")[0] == 403

            with psycopg.connect(owner_url, autocommit=True) as owner:
                queries = owner.execute("select query from pg_stat_activity").fetchall()
                owner.execute(FAILING)
            assert sent(good[0], queue) == "InternalFailure"
            probes = ("/metrics", "/health/ready", "/health/live", "/console")
            shown = [answered(node.url + path)[1] for path in probes]
            processes = [psutil.Process(node.process.pid), *node.workers()]
            lines = [" ".join(process.cmdline()) for process in processes]
            network.close()
            assert sent(good[0], queue)
            shown += [answered(node.url + path)[1] for path in probes]
    said = "".join(capfd.readouterr())

    for text in (node.log, said, *shown, *lines, *(query for (query,) in queries)):
        clean(text, planted)
    assert "request failed" in node.log
    assert "database unavailable" in node.log
    assert re.search('SignatureDoesNotMatch.*"event": "audit"', node.log)
