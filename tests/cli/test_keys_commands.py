"""The commands on access keys, and the settings that hold their master key."""

import json
import secrets
import subprocess
from base64 import b64encode
from pathlib import Path

import psycopg
import pytest

from skipmq import config
from support import commands, forks
from support.http import SKIPMQ, environment, free_port
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import as_node

OTHER_KEY = b64encode(secrets.token_bytes(32)).decode()
URL = "postgresql://u:hush@h/d"


@pytest.fixture
def url(lent: str) -> str:
    return lent


@pytest.fixture
def keys(url: str) -> Keys:
    return Keys(url)


def run(*words: str, code: int = 0, **settings: object) -> str:
    """Run a command; return what it printed."""
    return commands.run(*words, code=code, **settings)


def test_secret_is_shown_once_and_stored_nowhere(url: str, keys: Keys) -> None:
    made = keys.run("create", "--account", ACCOUNT, "--name", "mail")

    assert list(made) == ["access_key_id", "secret_access_key", "account"]
    (listed,) = keys.run("list")["keys"]
    assert (listed["access_key_id"], listed["account"]) == (made["access_key_id"], ACCOUNT)
    assert (listed["name"], listed["enabled"], listed["last_used"]) == ("mail", True, None)
    told = run("keys", "list", database_url=url, master_key=MASTER_KEY)
    assert made["access_key_id"] in told
    with psycopg.connect(url) as owner:
        stored = str(owner.execute("select k::text from skipmq.access_key k").fetchall())
    for text in (told, json.dumps(listed), stored):
        assert made["secret_access_key"] not in text
    assert made["secret_access_key"].encode().hex() not in stored


def test_commands_tell_what_they_have_done(url: str) -> None:
    settings = {"database_url": url, "master_key": MASTER_KEY}
    assert "no access keys yet" in run("keys", "list", **settings)

    made = run("keys", "create", account=ACCOUNT, **settings)
    key = next(word for word in made.split() if word.startswith("AKIA"))

    assert "The secret cannot be shown again." in made
    assert ACCOUNT in made
    assert f"access key {key} is disabled" in run("keys", "disable", key, **settings)
    assert f"access key {key} is enabled" in run("keys", "enable", key, **settings)
    session = run("keys", "session", key, "--seconds", "900", **settings)
    assert "ASIA" in session
    assert "session token" in session
    declined = run("keys", "revoke", key, code=1, **settings)
    assert f"Permanently delete access key {key} of account {ACCOUNT}?" in declined
    assert "nothing was revoked" in declined
    assert f"access key {key} is revoked" in run("keys", "revoke", key, "--yes", **settings)
    assert "no access keys yet" in run("keys", "list", **settings)


def test_changes_of_keys_are_on_the_record(url: str, keys: Keys) -> None:
    key = keys.run("create", "--name", "warehouse", "--role", "reader")["access_key_id"]
    keys.run("permit", key, "--role", "operator")
    new = keys.run("rotate", key)["access_key_id"]
    keys.run("disable", new)
    keys.run("revoke", key, "--yes")

    settings = {"database_url": url, "master_key": MASTER_KEY}
    records = json.loads(run("audit", "--changes", "--limit", "5", "--json", **settings))["records"]
    assert [(each["action"], each["parameters"]["Name"]) for each in reversed(records)] == [
        *(("CreateAccessKey", "warehouse"), ("PermitAccessKey", "warehouse")),
        *(("RotateAccessKey", "warehouse"), ("DisableAccessKey", "warehouse")),
        ("RevokeAccessKey", "warehouse"),
    ]
    created, permitted, rotated = records[4:1:-1]
    assert created["parameters"]["Rights"]["role"] == "reader"
    assert permitted["parameters"]["Before"]["role"] == "reader"
    assert rotated["parameters"]["NewKeyId"] == new
    revoked = next(
        each for each in keys.run("list", "--revoked")["keys"] if each["access_key_id"] == key
    )
    assert (revoked["name"], revoked["revoked_by"]) == ("warehouse", records[0]["user"])
    assert key in run("keys", "list", "--revoked", **settings)


def test_secrets_are_shown_whole_on_a_narrow_terminal(url: str, keys: Keys) -> None:
    key = keys.run("create")["access_key_id"]

    done = forks.run(
        [*SKIPMQ, "keys", "session", key],
        environment({"database_url": url, "master_key": MASTER_KEY}) | {"COLUMNS": "20"},
    )

    shown = dict(line.rsplit(maxsplit=1) for line in done.stdout.splitlines()[:3])
    assert len(shown["access key id"]) == 20
    assert len(shown["secret access key"]) == 40
    assert len(shown["session token"]) == 64


def test_mistakes_are_one_line(url: str) -> None:
    settings = {"database_url": url, "master_key": MASTER_KEY}

    for command in ("disable", "enable", "revoke", "rotate", "session"):
        told = run("keys", command, "AKIANOWHERE", code=1, **settings)
        assert "access key AKIANOWHERE" in told
        assert len(told.splitlines()) == 1
    run("keys", "create", "--name", "shop", **settings)
    twice = run("keys", "create", "--name", "shop", code=1, **settings)
    assert "has a key named shop: rotate or revoke AKIA" in twice
    run("keys", "create", "--name", "shop", "--account", ACCOUNT, **settings)
    german = run("keys", "create", "--queue", "bücher-*", code=2, **settings)
    assert "bücher-* is no name of a queue: those have letters a to z, digits" in german
    assert "12 digits" in run("keys", "create", "--account", "1", code=2, **settings)
    without = run("keys", "create", code=2, database_url=url)
    assert "openssl rand -base64 32" in without


def test_only_the_owner_may_create_keys(url: str) -> None:
    told = run("keys", "create", code=1, database_url=as_node(url), master_key=MASTER_KEY)

    assert "permission denied" in told
    assert len(told.splitlines()) == 1


def test_master_key_is_rotated(url: str, keys: Keys) -> None:
    made = keys.run("create")
    keys.run("session", made["access_key_id"])
    old = keys.run("list")["keys"][0]["master_key"]
    both = {"database_url": url, "master_key": f"{OTHER_KEY} {MASTER_KEY}"}
    alone = {"database_url": url, "master_key": OTHER_KEY}

    assert made["access_key_id"] in run("keys", "rotate-master", code=1, **alone)
    assert "2 secrets re-encrypted" in run("keys", "rotate-master", **both)
    assert "0 secrets re-encrypted" in run("keys", "rotate-master", **alone)

    assert old not in {key["master_key"] for key in keys.run("list")["keys"]}


def test_config_never_shows_the_master_key(tmp_path: Path) -> None:
    file = tmp_path / "key"
    file.write_text(f"{MASTER_KEY}\n")

    by_variable = run("config", "--json", master_key=MASTER_KEY, database_url=URL)
    by_file = run("config", "--json", master_key_file=file)

    assert json.loads(by_variable)["master_key"] == {"value": "***", "source": "SKIPMQ_MASTER_KEY"}
    assert json.loads(by_file)["master_key"] == {"value": "***", "source": "SKIPMQ_MASTER_KEY_FILE"}
    assert MASTER_KEY not in by_variable + by_file + run("config", master_key=MASTER_KEY)
    settings = config.load({"SKIPMQ_MASTER_KEY": MASTER_KEY, "SKIPMQ_DATABASE_URL": URL}).settings
    assert MASTER_KEY not in repr(settings)
    assert "hush" not in repr(settings)


def test_secret_settings_are_read_from_files(tmp_path: Path) -> None:
    (tmp_path / "url").write_text(f"{URL}\n")
    (tmp_path / "skipmq-master-key").write_text(f"{MASTER_KEY}\n")
    environment = {
        "SKIPMQ_DATABASE_URL_FILE": str(tmp_path / "url"),
        "SKIPMQ_ANALYTICS_URL_FILE": str(tmp_path / "url"),
        "CREDENTIALS_DIRECTORY": str(tmp_path),
    }

    found = config.load(environment)

    assert found.settings.database_url == found.settings.analytics_url == URL
    assert found.settings.master_keys == (b"a master key of exactly 32 bytes",)
    assert found.sources["database_url"] == "SKIPMQ_DATABASE_URL_FILE"
    assert found.sources["master_key"] == str(tmp_path / "skipmq-master-key")
    given = config.load(environment | {"SKIPMQ_MASTER_KEY": OTHER_KEY})
    assert given.settings.master_key == OTHER_KEY


@pytest.mark.parametrize(
    "key", ["short", MASTER_KEY[:-4], f"{MASTER_KEY}AAAA", f"{MASTER_KEY} x", "ä" * 44, "=" * 44]
)
def test_master_key_of_another_form_is_refused_and_not_repeated(key: str) -> None:
    with pytest.raises(config.ConfigError) as caught:
        config.load({"SKIPMQ_MASTER_KEY": key})

    (problem,) = caught.value.problems
    assert problem.startswith("SKIPMQ_MASTER_KEY: a master key is 32 bytes in base64")
    assert key not in problem


def test_problems_with_files_of_secrets_are_told(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    with pytest.raises(config.ConfigError) as caught:
        config.load(
            {
                "SKIPMQ_DATABASE_URL": URL,
                "SKIPMQ_DATABASE_URL_FILE": str(tmp_path / "binary"),
                "SKIPMQ_ANALYTICS_URL_FILE": str(tmp_path / "nowhere"),
                "SKIPMQ_MASTER_KEY_FILE": str(tmp_path / "binary"),
                "SKIPMQ_PORT_FILE": str(tmp_path / "binary"),
            }
        )

    problems = "\n".join(caught.value.problems)
    assert len(caught.value.problems) == 4
    assert "SKIPMQ_DATABASE_URL_FILE: SKIPMQ_DATABASE_URL is set too" in problems
    assert "SKIPMQ_ANALYTICS_URL_FILE: the file cannot be read: No such" in problems
    assert "SKIPMQ_MASTER_KEY_FILE: the file cannot be read: it is not text" in problems
    assert "SKIPMQ_PORT_FILE: there is no such setting" in problems
    assert "hush" not in problems


@pytest.mark.parametrize(
    ("settings", "checks"),
    [
        ({}, False),
        ({"host": "::1"}, False),
        ({"host": "localhost"}, False),
        ({"auth": "on"}, True),
        ({"host": "0.0.0.0"}, True),  # noqa: S104 - not bound.
        ({"host": "10.0.0.1"}, True),
        ({"host": "10.0.0.1", "auth": "off"}, False),
    ],
)
def test_signatures_are_checked_unless_on_loopback(
    settings: dict[str, str], *, checks: bool
) -> None:
    variables = {f"SKIPMQ_{name.upper()}": value for name, value in settings.items()}

    assert config.load(variables).settings.checks_signatures is checks


def test_node_that_checks_signatures_needs_a_master_key(url: str) -> None:
    told = run("serve", code=1, database_url=as_node(url), auth="on", port=free_port())

    assert "SKIPMQ_MASTER_KEY" in told
    assert len(told.splitlines()) == 1


def test_wsgi_application_checks_signatures_unless_told_otherwise(url: str) -> None:
    done = subprocess.run(
        [SKIPMQ[0], "-c", "from skipmq import wsgi; wsgi.application()"],
        env=environment({"database_url": as_node(url)}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode
    assert "SKIPMQ_AUTH=off allows every caller" in done.stderr
