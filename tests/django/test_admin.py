"""The pages of the admin: what they show, whom, and that they change nothing."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from skipmq import Queue
from support.browser import Browser
from support.http import eventually, free_port
from support.postgres import Connection
from support.sql import number

# Signs in, opens pages, and prints what each answers: the status and the text.
VISIT = """
import json
from django.contrib.auth.models import Permission, User
from django.test import Client
from django.test.utils import override_settings
user = User.objects.create(username="visitor", is_staff=True)
user.user_permissions.set(Permission.objects.filter(codename__in=json.loads({rights!r})))
client = Client(raise_request_exception=False)
client.force_login(user)
with override_settings(ALLOWED_HOSTS=["testserver"]):
    for path in json.loads({paths!r}):
        answer = client.get(path)
        print(json.dumps([answer.status_code, answer.content.decode()]))
"""
QUEUES = "/admin/skipmq/queue/"
ORDERS = f"{QUEUES}000000000000/us-east-1/orders/"


def visit(shop: Any, rights: list[str], *paths: str) -> list[tuple[int, str]]:
    """Open pages as a member of staff with some permissions."""
    program = VISIT.format(rights=json.dumps(rights), paths=json.dumps(paths))
    printed = shop.run("shell", "--no-imports", "-c", program)
    return [tuple(json.loads(line)) for line in printed.splitlines() if line.startswith("[")]


def test_permissions_decide_who_sees_queues_and_messages(shop: Any) -> None:
    shop.place("tea")

    index, queues, messages = visit(shop, ["view_queue"], "/admin/", QUEUES, ORDERS)

    assert QUEUES in index[1]
    assert queues[0] == 200
    assert "orders" in queues[1]
    assert ORDERS not in queues[1]
    assert messages[0] == 403


@pytest.mark.parametrize("rights", [[], ["view_messages"]])
def test_queues_are_seen_by_nobody_without_the_permission(shop: Any, rights: list[str]) -> None:
    index, queues = visit(shop, rights, "/admin/", QUEUES)

    assert QUEUES not in index[1]
    assert queues[0] == 403


def test_pages_show_what_there_is_and_receive_nothing(shop: Any, tables: Connection) -> None:
    shop.place("tea", note="<b>bold</b>")
    orders = Queue("orders", dict)
    for n in range(60):
        orders.send({"n": n}, using=tables, delay=n and 900)
    tables.execute("select skipmq.receive_message('orders', 1, 600)")
    tables.execute("select skipmq.create_queue('other' || n) from generate_series(1, 120) n")

    pages = visit(
        shop,
        ["view_queue", "view_messages"],
        *(QUEUES, f"{QUEUES}?p=1", f"{QUEUES}?q=ord&p=x", ORDERS),
        *(f"{ORDERS}?state=in-flight", f"{ORDERS}?state=delayed"),
    )

    assert {status for status, _ in pages} == {200}
    first, second, searched, messages, in_flight, delayed = (text for _, text in pages)
    assert first.count('<th scope="row">') == 100
    assert "?q=&amp;p=1" in first
    queues = number(tables, "select count(*) from skipmq.queue")
    assert second.count('<th scope="row">') == queues - 100 >= 24
    assert f"{queues} queues" in second
    assert searched.count('<th scope="row">') == 1
    assert messages.count("<pre") == 50
    assert in_flight.count("<pre") == 1
    assert "&lt;b&gt;bold&lt;/b&gt;" in in_flight
    assert delayed.count("<pre") == 50
    assert "state=delayed&amp;after=" in delayed
    assert number(tables, "select sum(receive_count) from skipmq_views.message") == 1


def test_address_that_leads_nowhere_is_not_found(shop: Any) -> None:
    pages = visit(
        shop,
        ["view_queue", "view_messages"],
        *(f"{QUEUES}000000000000/us-east-1/nowhere/", f"{ORDERS}?state=x"),
        *(f"{ORDERS}?after=x", f"{QUEUES}1/change/", f"{QUEUES}add/"),
    )

    assert [status for status, _ in pages] == [404] * 5


def test_role_without_rights_gets_the_remedy_on_the_page(shop: Any, tables: Connection) -> None:
    tables.execute("create role visitor login")
    tables.execute("grant all on all tables in schema public to visitor")
    tables.execute("grant all on all sequences in schema public to visitor")
    shop.settings["databases"]["default"]["USER"] = "visitor"
    try:
        pages = visit(shop, ["view_queue", "view_messages"], QUEUES, ORDERS)
    finally:
        tables.execute("drop owned by visitor; drop role visitor")

    for status, text in pages:
        assert status == 200
        assert "grant skipmq_node to visitor" in text


@pytest.fixture
def site(shop: Any) -> Iterator[str]:
    """Give the URL of the project's server, with an administrator of the password secret."""
    program = (
        "from django.contrib.auth.models import User;"
        " User.objects.create_superuser('root', password='secret')"
    )
    shop.run("shell", "--no-imports", "-c", program)
    url = f"http://127.0.0.1:{(port := free_port())}"

    def answers() -> bool:
        try:
            with urllib.request.urlopen(f"{url}/admin/login/", timeout=10):
                return True
        except urllib.error.URLError:
            return False

    with shop.start("runserver", "--noreload", str(port)) as server:
        eventually(answers, why=f"it serves: {server.log}")
        yield url


def test_pages_look_as_those_of_the_admin(
    shop: Any, site: str, tables: Connection, browser: Browser, screenshots: Path
) -> None:
    tables.execute("select skipmq.create_queue('orders-failed')")
    policy = {
        "deadLetterTargetArn": "arn:aws:sqs:us-east-1:000000000000:orders-failed",
        "maxReceiveCount": 3,
    }
    tables.execute(
        "select skipmq.set_queue_attributes(skipmq.queue_id('orders'), %s)",
        (json.dumps({"RedrivePolicy": json.dumps(policy)}),),
    )
    shop.place("tea", note="as a gift, please")
    orders = Queue("orders", dict)
    orders.send_many([{"order": n} for n in range(2, 5)], using=tables, attributes={"trace": "x"})
    orders.send({"order": 5}, using=tables, delay=600)
    tables.execute("create temporary table r as select * from skipmq.receive_message('orders', 2)")
    tables.execute(
        "select skipmq.dead_letter_message('orders', id, receive_count, message_id,"
        " 'ValueError: no milk')"
        " from r order by id desc limit 1"
    )

    browser.look("desktop", "light")
    browser.open(f"{site}/admin/login/?next={QUEUES}")
    browser.enter("[name=username]", "root")
    browser.enter("[name=password]", "secret", "\n")
    browser.wait("orders-failed")
    browser.picture(screenshots / "django-queues.png")
    assert browser.texts("tbody tr:has(a[href*='/orders/']) td")[:3] == ["2", "1", "1"]
    browser.click("a[href*='/orders-failed/']")
    browser.wait("ValueError: no milk")
    browser.picture(screenshots / "django-dead-letters.png")
    for scheme in ("light", "dark"):
        for width in ("desktop", "phone"):
            browser.look(width, scheme)
            browser.open(f"{site}{ORDERS}")
            browser.wait("as a gift")
            browser.picture(screenshots / f"django-messages-{width}-{scheme}.png")
    logged = [
        e["message"] for e in browser.driver.get_log("browser") if "favicon" not in e["message"]
    ]
    assert logged == []
