"""Names, URLs, ARNs, accounts and regions in commands, and what a miss says."""

import json

import psycopg
import pytest

from support import commands
from support.postgres import as_node

ACCOUNT = "210987654321"
ARN = f"arn:aws:sqs:eu-central-1:{ACCOUNT}:orders"


@pytest.fixture
def owner_url(lent: str) -> str:
    return lent


@pytest.fixture
def url(owner_url: str) -> str:
    return as_node(owner_url)


def run(url: str, *words: str, code: int = 0, **settings: str) -> str:
    """Run a command with settings; return what it printed."""
    return commands.run(*words, code=code, database_url=url, **settings)


def test_queue_is_found_by_options_settings_arn_and_url(url: str) -> None:
    place = ("--account", ACCOUNT, "--region", "eu-central-1")
    run(url, "queue", "create", "orders", *place)
    run(url, "queue", "send", ARN, "tea")

    shown = [
        json.loads(said)
        for said in (
            run(url, "queue", "show", "orders", *place, "--json"),
            run(
                *(url, "queue", "show", "orders", "--json"), account=ACCOUNT, region="eu-central-1"
            ),
            run(url, "queue", "show", ARN, "--json"),
            run(
                url,
                *("queue", "show", f"http://localhost:9324/{ACCOUNT}/orders"),
                *("--region", "eu-central-1", "--json"),
            ),
            run(
                url,
                "queue",
                "show",
                f"https://sqs.eu-central-1.example.com/{ACCOUNT}/orders",
                "--json",
            ),
        )
    ]

    assert [each["queue_arn"] for each in shown] == [ARN] * 5
    assert [each["approximate_number_of_messages"] for each in shown] == [1] * 5
    assert run(url, "queue", "list", "--names", *place) == "orders\n"
    assert "tea" in run(url, "queue", "peek", ARN)
    assert ACCOUNT in run(url, "queue", "stats", ARN)
    assert "no queues yet" in run(url, "queue", "list")
    assert "no matching queues" in run(url, "queue", "stats", "--region", "us-east-1")


@pytest.mark.parametrize("command", ["peek", "show", "stats", "tail", "redrive", "purge"])
def test_miss_names_the_place_and_where_such_a_queue_is(url: str, command: str) -> None:
    run(url, "queue", "create", "orders", "--region", "eu-central-1")
    words = ("queue", command, "orders", *(["--yes"] if command == "purge" else []))

    said = run(url, *words, code=1)

    assert said.splitlines()[-1] == (
        "skipmq: queue orders does not exist in account 000000000000, region us-east-1; there is"
        " one in eu-central-1: add --region eu-central-1"
    )


def test_miss_names_another_account_and_a_queue_that_is_nowhere(url: str) -> None:
    run(url, "queue", "create", ARN)

    assert f"add --account {ACCOUNT} --region eu-central-1" in run(
        url, "queue", "peek", "orders", code=1
    )
    assert f"there is one in account {ACCOUNT}: add --account {ACCOUNT}\n" in run(
        url, "queue", "peek", "orders", "--region", "eu-central-1", code=1
    )
    nowhere = run(url, "queue", "peek", "absent", code=1)
    assert (
        "absent does not exist in account 000000000000, region us-east-1: `skipmq queue list`"
        in nowhere
    )


def test_options_that_contradict_an_arn_are_refused(url: str) -> None:
    said = run(url, "queue", "peek", ARN, "--region", "us-east-1", code=2)

    assert (
        f"{ARN} is of region eu-central-1, and --region says us-east-1: leave --region out" in said
    )
    assert "write arn:aws:sqs:REGION:ACCOUNT:NAME" in run(
        url, "queue", "peek", "arn:aws:sns:x", code=2
    )
    assert "--account" in run(url, "queue", "peek", "orders", "--account", "12", code=2)


def test_messages_move_to_a_queue_of_another_account_by_its_arn(url: str) -> None:
    target = "arn:aws:sqs:us-east-1:210987654321:held"
    for name in ("orders", target):
        run(url, "queue", "create", name)
    run(url, "queue", "send", "orders", "tea")

    moved = run(url, "queue", "move", "orders", target)
    other = run(url, "queue", "move", "orders", ARN, code=2)
    missing = run(url, "queue", "move", "orders", "absent", code=1)

    assert "1 messages moved from orders: completed" in moved
    assert "tea" in run(url, "queue", "peek", target)
    assert "the queue orders is in eu-central-1, and messages move within a region" in other
    assert "queue absent does not exist in account 000000000000" in missing


def test_grant_takes_arns_and_the_place_of_the_settings(owner_url: str) -> None:
    role = f"shop_{psycopg.conninfo.conninfo_to_dict(owner_url)['dbname']}"
    with psycopg.connect(owner_url, autocommit=True) as owner:
        owner.execute(f'create role "{role}"')
        try:
            run(
                owner_url,
                "sql",
                "grant",
                role,
                "--send",
                ARN,
                "--send",
                "mail",
                region="eu-north-1",
            )
            granted = json.loads(run(owner_url, "sql", "list", "--json"))["grants"]
            run(owner_url, "sql", "revoke", role, "--send", ARN)
            left = json.loads(run(owner_url, "sql", "list", "--json"))["grants"]
        finally:
            owner.execute(f'drop owned by "{role}"')
            owner.execute(f'drop role "{role}"')

    places = {(each["account"], each["region"], each["queue"]) for each in granted}
    assert places == {
        (ACCOUNT, "eu-central-1", "orders"),
        ("000000000000", "eu-north-1", "mail"),
    }
    assert [each["queue"] for each in left] == ["mail"]


def test_sql_functions_take_the_place_of_the_session_and_name_it_in_a_miss(url: str) -> None:
    run(url, "queue", "create", ARN)
    send = "select skipmq.send_message('orders', 'tea')"
    with psycopg.connect(url, autocommit=True) as session:
        with pytest.raises(psycopg.Error) as missed:
            session.execute(send)
        with pytest.raises(psycopg.Error) as by_arn:
            session.execute("select skipmq.send_message(%s, 'tea')", (ARN,))
        session.execute(f"set skipmq.account = '{ACCOUNT}'")
        session.execute("set skipmq.region = 'eu-central-1'")
        session.execute(send)

    assert missed.value.diag.message_primary == (
        "queue orders does not exist in account 000000000000, region us-east-1"
    )
    assert missed.value.diag.message_hint == (
        f"there is one in account {ACCOUNT}, region eu-central-1: set p_account and p_region"
    )
    assert "p_region =>" in str(by_arn.value.diag.message_hint)
    assert "tea" in run(url, "queue", "peek", ARN)
