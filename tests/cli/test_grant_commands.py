"""The commands on what roles may do with queues by SQL."""

import json
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from support import commands
from support.applications import ACCOUNT, REGION, Applications, applications_of, bodies, send
from support.postgres import as_node
from support.sql import Queue, number

PLACE = {"account": ACCOUNT, "region": REGION}


@pytest.fixture
def url(lent: str) -> str:
    return lent


@pytest.fixture
def applications(url: str) -> Iterator[Applications]:
    with applications_of(url) as made:
        made.create("shop")
        yield made


def run(url: str, *words: str, code: int = 0) -> str:
    """Run a command; return what it printed."""
    return commands.run("sql", *words, code=code, database_url=url)


def run_json(url: str, *words: str) -> Any:
    return json.loads(run(url, *words, "--json"))


def test_application_may_do_what_it_was_granted(url: str, applications: Applications) -> None:
    Queue(applications.owner)
    Queue(applications.owner, "mail-a")

    said = run(url, "grant", "shop", "--send", "orders", "--send", "mail-*", "--receive", "orders")

    assert said == "role shop may send to orders, mail-* and receive from orders\n"
    shop = applications.connect("shop")
    send(shop, "orders", "tea")
    send(shop, "mail-a")
    assert bodies(shop, "orders") == ["tea"]
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        bodies(shop, "mail-a")

    said = run(url, "revoke", "shop", "--send", "mail-*")

    assert said == "role shop may no longer send to mail-*\n"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        send(shop, "mail-a")
    send(shop, "orders")
    assert run(url, "revoke", "shop") == "revoked all grants of role shop\n"
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        send(shop, "orders")


def test_remedy_of_a_refusal_is_a_command_that_works(url: str, applications: Applications) -> None:
    Queue(applications.owner, "mails")
    shop = applications.sender("store", "orders")
    with pytest.raises(psycopg.errors.InsufficientPrivilege) as caught:
        send(shop, "mails")

    remedy = str(caught.value.diag.message_primary).split("`")[1].split()
    assert remedy[:2] == ["skipmq", "sql"]
    run(url, *remedy[2:])

    send(shop, "mails")


def test_grants_are_listed(url: str, applications: Applications) -> None:
    assert run_json(url, "list") == {"grants": []}
    assert "no grants yet: `skipmq sql grant ROLE --send QUEUE`" in run(url, "list")

    place = ["--account", "123456789012", "--region", "eu-west-1"]
    granted = run_json(url, "grant", "shop", "--send", "*", *place)
    run(url, "grant", "shop", "--receive", "orders")

    assert granted == {
        "role": "shop",
        "send": ["*"],
        "receive": [],
        "account": "123456789012",
        "region": "eu-west-1",
    }
    first, second = run_json(url, "list")["grants"]
    assert first.pop("granted").endswith("Z")
    assert first == {
        "role": "shop",
        **PLACE,
        "queue": "orders",
        "send": False,
        "receive": True,
        "by": "postgres",
    }
    assert (second["account"], second["region"], second["queue"], second["send"]) == (
        "123456789012",
        "eu-west-1",
        "*",
        True,
    )
    listed = run(url, "list")
    assert [line.split()[:4] for line in listed.splitlines()[1:]] == [
        ["shop", ACCOUNT, REGION, "orders"],
        ["shop", "123456789012", "eu-west-1", "*"],
    ]
    revoked = run_json(url, "revoke", "shop", "--send", "*", *place)
    assert revoked == granted
    assert [grant["queue"] for grant in run_json(url, "list")["grants"]] == ["orders"]
    assert run_json(url, "revoke", "shop") == {"role": "shop", "revoked": "all"}
    assert number(applications.owner, "select count(*) from skipmq.queue_grants()") == 0


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["grant", "nobody", "--send", "a"], 1, "create role nobody login password"),
        (["grant", "shop", "--send", "a b"], 1, "'a b' is not a queue name"),
        (["grant", "shop", "--send", "a", "--account", "1"], 2, "an account is 12 digits"),
        (["revoke", "nobody"], 1, "there is no role nobody"),
        (["revoke", "shop"], 1, "role shop has no grants"),
        (["revoke", "shop", "--receive", "a"], 1, "no grant to receive from a"),
        (["grant", "shop"], 2, "specify a queue: --send QUEUE or --receive QUEUE"),
        (["revoke", "shop", "--account", "123456789012"], 2, "specify a queue"),
    ],
)
def test_mistakes_are_said_in_one_sentence(
    url: str, applications: Applications, words: list[str], code: int, said: str
) -> None:
    assert applications
    printed = run(url, *words, code=code)

    assert said in printed
    # Of a wrong call click shows the usage too.
    assert len(printed.splitlines()) == 1 or code == 2


def test_only_the_owner_may_grant_revoke_and_list(url: str, applications: Applications) -> None:
    applications.grant("shop", send=["*"])

    for login in (as_node(url), url.replace("//postgres@", "//shop@")):
        for words in (["grant", "shop", "--send", "a"], ["revoke", "shop"], ["list"]):
            printed = run(login, *words, code=1)
            assert "permission denied" in printed
            assert "run this with the URL of the schema's owner" in printed
            assert len(printed.splitlines()) == 1
