"""The account and region in the addresses of pages, and the menu of those that have queues."""

import psycopg
import pytest

from support.access import known
from support.browser import Browser
from support.http import NodeProcess, client
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in

THEIRS, REGION = "210987654321", "eu-west-1"


@pytest.fixture(scope="module")
def theirs(node: NodeProcess) -> str:
    """Return the address of a queue of another account and region."""
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        for name in ("theirs", "theirs-too"):
            owner.execute(
                "select skipmq.create_queue(%s, '{}', '{}', %s, %s)", (name, THEIRS, REGION)
            )
    return f"/console/{REGION}/{THEIRS}/queues/theirs"


def test_link_leads_every_visitor_to_the_same_queue(node: NodeProcess, theirs: str) -> None:
    """The links and forms of the page have its account and region, too."""
    page = Visitor(node.url).get(f"{theirs}/messages")

    assert (page.status, f"arn:aws:sqs:{REGION}:{THEIRS}:theirs" in page.body) == (200, True)
    assert f'href="{theirs}/settings"' in page.body
    assert f'action="{theirs}/transfer"' in page.body or f'href="{theirs}/send"' in page.body
    assert "/console/us-east-1/" not in page.body


def test_form_changes_the_queue_of_its_address(node: NodeProcess, theirs: str) -> None:
    visitor = Visitor(node.url)

    answer = visitor.post(f"{theirs}/send", {"body": "for them"})

    assert (answer.status, answer.headers["Location"]) == (303, f"{theirs}/messages")
    assert "for them" in visitor.get(f"{theirs}/messages").body
    ours = visitor.get("queues/theirs/messages")
    assert (ours.status, "Queue not found" in ours.body) == (400, True)


def test_address_without_account_and_region_leads_to_those_that_were_open_last(
    node: NodeProcess, theirs: str
) -> None:
    visitor = Visitor(node.url)
    old = "/console/queues/theirs/messages?state=visible"

    first = visitor.get(old)
    visitor.get(f"{theirs}/messages")
    then = visitor.get(old)

    assert first.headers["Location"] == visitor.address_of("queues/theirs/messages?state=visible")
    assert (then.status, then.headers["Location"]) == (302, f"{theirs}/messages?state=visible")
    assert visitor.get("/console/nothing").status == 404
    assert visitor.post("/console/queues/theirs/delete", {"typed": "theirs"}).status == 404


@pytest.mark.parametrize("place", ["us-east-1/1234", "US/000000000000", "-/00000000000x"])
def test_address_of_no_account_or_region_is_no_page(node: NodeProcess, place: str) -> None:
    assert Visitor(node.url).get(f"/console/{place}/queues").status == 404


def test_other_account_and_region_are_chosen_where_nobody_signs(
    node: NodeProcess, theirs: str
) -> None:
    visitor = Visitor(node.url)
    form = {"account": THEIRS, "region": REGION}

    chosen = visitor.post("scope", form).headers["Location"]

    assert chosen == theirs.rpartition("/")[0]
    assert "theirs" in visitor.get(chosen).body
    assert visitor.post("scope", {"account": "21098765432", "region": "x"}).status == 400
    assert visitor.post("scope", form | {"region": "<b>"}).status == 400


def test_menu_leads_to_accounts_and_regions_that_have_queues(
    node: NodeProcess, browser: Browser, theirs: str
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/us-east-1/000000000000/queues")

    browser.click("#scope > summary")
    browser.wait(f"{THEIRS} · {REGION}")
    assert [text for text in browser.texts(".places li") if THEIRS in text] == [
        f"{THEIRS} · {REGION}\n2 queues"
    ]
    assert browser.complaints() == []
    browser.click(f".places a[href$='{theirs.rpartition('/')[0]}']")

    browser.wait("theirs-too")
    assert browser.run("return location.pathname") == theirs.rpartition("/")[0]
    # Other tests open addresses without account and region.
    browser.driver.delete_all_cookies()


def test_account_of_an_address_is_that_of_the_key_and_its_region_is_free(
    signing: NodeProcess, keys: Keys
) -> None:
    key = keys.create()
    visitor = signed_in(signing, key)
    sqs = client(signing.url, region=REGION, **key)
    sqs.create_queue(QueueName="elsewhere")

    foreign = visitor.get(f"/console/{REGION}/{THEIRS}/queues/elsewhere/messages")
    own = visitor.get(f"/console/{REGION}/{ACCOUNT}/queues/elsewhere/messages")

    assert (foreign.status, own.status) == (403, 200)
    assert f"This page belongs to account {THEIRS}" in foreign.body
    assert f'href="/console/{REGION}/{ACCOUNT}/queues"' in foreign.body
    assert f'href="/console/{REGION}/{THEIRS}' not in foreign.body
    changed = visitor.post(
        f"/console/{REGION}/{THEIRS}/create", {"name": "x"}, csrf=visitor.csrf("queues")
    )
    assert changed.status == 403


def test_menu_of_a_key_has_the_regions_that_it_may_list(signing: NodeProcess, keys: Keys) -> None:
    key, other = keys.create(), keys.create(THEIRS)
    known(client(signing.url, region=REGION, **key)).create_queue(QueueName="menu")
    known(client(signing.url, region="me-south-1", **other)).create_queue(QueueName="m")
    limited = keys.create(ACCOUNT, "--role", "reader", "--queue", "menu")

    menu = signed_in(signing, key).get("places").body
    nothing = signed_in(signing, limited).get("places").body

    assert (f">{REGION}<" in menu, "me-south-1" in menu) == (True, False)
    assert "No region has queues that you may list." in nothing
