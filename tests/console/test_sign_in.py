"""Who is let into the console, for how long, and what a stranger can make it do."""

import base64
import hmac
import json
from base64 import b64decode, urlsafe_b64encode
from typing import Any
from urllib.parse import quote

import msgspec
import psycopg
import pytest
from botocore.exceptions import ClientError
from msgspec import structs

from skipmq.console.session import SECONDS, Seal, Session, cookie_name
from support.http import NodeProcess, WsgiProcess, client, eventually
from support.key_commands import ACCOUNT, MASTER_KEY, Keys
from support.postgres import Databases, as_node
from support.sql import number
from support.visitor import Visitor, records, signed_in

UNKNOWN = "AKIAIOSFODNN7UNKNOWN"
RECEIPT_KEY = "select key from skipmq.receipt_keys() limit 1"
NOW = "select extract(epoch from skipmq.clock())::float8"


@pytest.fixture
def visitor(signing: NodeProcess) -> Visitor:
    return Visitor(signing.url, ACCOUNT)


@pytest.fixture(scope="module")
def key(keys: Keys) -> dict[str, str]:
    return keys.create()


@pytest.fixture(scope="module")
def admin(signing: NodeProcess, key: dict[str, str]) -> Visitor:
    return signed_in(signing, key)


def _lists(sqs: Any) -> bool:
    try:
        return bool(sqs.list_queues())
    except ClientError:
        return False


def cookie(visitor: Visitor) -> Any:
    (found,) = [each for each in visitor.cookies if each.name.startswith("skipmq_console_")]
    return found


def ask(node: NodeProcess, value: str) -> int:
    """Return the status of a page for a stranger who has that cookie."""
    shown = f"{cookie_name(node.url)}={value}"
    return Visitor(node.url, ACCOUNT).get("queues", Cookie=shown).status


def test_every_page_wants_a_sign_in_and_leads_back(visitor: Visitor) -> None:
    for page in ("queues", "create", "queues/orders/messages", "queues/orders/settings", "nothing"):
        for address in (visitor.address_of(page), f"/console/{page}"):
            answer = visitor.get(address)
            assert answer.status == 303
            assert answer.headers["Location"] == f"/console/sign-in?next={address}"
    assert visitor.post("queues/orders/delete", {"typed": "orders"}).status == 303
    poll = visitor.get("queues", HX_Request="true")
    assert (poll.status, poll.headers["HX-Redirect"]) == (401, "/console/sign-in")


def test_key_and_secret_open_the_console(signing: NodeProcess, admin: Visitor) -> None:
    page = admin.get("queues")

    assert (page.status, "Sign out" in page.body) == (200, True)
    found = cookie(admin)
    assert found.path == "/console/"
    assert found.has_nonstandard_attr("HttpOnly")
    assert found.get_nonstandard_attr("SameSite") == "Strict"
    assert not found.secure
    assert eventually(
        lambda: [r for r in records(signing, admin, "SignIn") if r["outcome"] == "done"]
    )


def test_cookie_is_secure_where_the_proxy_speaks_tls(visitor: Visitor) -> None:
    answer = visitor.get("sign-in", X_Forwarded_Proto="https")

    assert "; Secure" in answer.headers["Set-Cookie"]


def test_sign_in_over_plain_http_from_elsewhere_is_warned_of(visitor: Visitor) -> None:
    host = {"X_Forwarded_Host": "sqs.example.com"}

    assert "over plain HTTP" in visitor.get("sign-in", **host).body
    assert "over plain HTTP" not in visitor.get("sign-in", X_Forwarded_Proto="https", **host).body
    assert "over plain HTTP" not in visitor.get("sign-in").body


def test_wrong_secret_opens_nothing_and_is_on_the_record(
    signing: NodeProcess, key: dict[str, str], admin: Visitor, visitor: Visitor
) -> None:
    assert admin.get("queues").status == 200
    answer = visitor.sign_in(key["key"], key["secret"][:-1])

    assert (answer.status, "The access key ID or the secret" in answer.body) == (403, True)
    assert visitor.get("queues").status == 303
    (refused,) = eventually(lambda: records(signing, visitor, "SignIn"))
    assert (refused["level"], refused["outcome"]) == ("warning", "InvalidClientTokenId")
    assert (refused["action"], refused["claimed_access_key"]) == ("SignIn", key["key"])
    assert key["secret"][:-1] not in signing.log


def test_unknown_key_and_wrong_secret_cannot_be_told_apart(
    signing: NodeProcess, key: dict[str, str], admin: Visitor
) -> None:
    assert admin.get("queues").status == 200
    pages = []
    for each in (key["key"], UNKNOWN):
        visitor = Visitor(signing.url)
        token = visitor.csrf()
        answer = visitor.post("sign-in", {"key_id": each, "secret": "wrong"}, csrf=token)
        assert answer.status == 403
        pages.append(answer.body.replace(each, "").replace(token, ""))

    assert pages[0] == pages[1]


def test_secret_in_the_place_of_the_id_is_not_on_the_record(
    signing: NodeProcess, visitor: Visitor
) -> None:
    secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"

    assert visitor.sign_in(secret, "x").status == 403

    assert eventually(lambda: records(signing, visitor, "SignIn"))
    assert secret not in signing.log


def test_sign_ins_are_limited_in_rate(signing: NodeProcess) -> None:
    visitor = Visitor(signing.url)
    token = visitor.csrf()

    def tries() -> list[int]:
        form = {"key_id": UNKNOWN, "secret": "guess"}
        return [visitor.post("sign-in", form, csrf=token).status for _ in range(10)]

    first = tries()
    assert first[:5] == [403] * 5
    assert eventually(lambda: 429 in tries())
    assert Visitor(signing.url).sign_in(UNKNOWN, "guess").status == 403


def test_temporary_credentials_cannot_sign_in(
    signing: NodeProcess, keys: Keys, visitor: Visitor
) -> None:
    session = keys.session(keys.create()["key"])
    sqs = client(signing.url, **session)
    # Elsewhere they are good.
    eventually(lambda: _lists(sqs))

    assert visitor.sign_in(session["key"], session["secret"]).status == 403


def test_session_ends_when_its_key_is_revoked(signing: NodeProcess, keys: Keys) -> None:
    key = keys.create()
    visitor = signed_in(signing, key)
    assert visitor.get("queues").status == 200

    keys.run("revoke", key["key"], "--yes")

    eventually(lambda: visitor.get("queues").status == 303)
    assert visitor.post("create", {"name": "revoked", "kind": "standard"}).status == 303


def test_session_ends_after_eight_hours_of_the_databases_clock(
    signing: NodeProcess, keys: Keys, key: dict[str, str]
) -> None:
    with psycopg.connect(keys.url, autocommit=True) as owner:
        before = number(owner, NOW)
        visitor = signed_in(signing, key)
        after = number(owner, NOW)
        seal = Seal(number(owner, RECEIPT_KEY), [b64decode(MASTER_KEY)])
    made = seal.open(cookie(visitor).value)
    assert made is not None
    # The node asks for the clock every second.
    assert before + SECONDS - 30 <= made.until <= after + SECONDS

    statuses = [
        ask(signing, seal.close(each))
        for each in (
            made,
            structs.replace(made, until=before - 60.0),
            # Longer than any that a node makes.
            structs.replace(made, until=made.until + SECONDS),
        )
    ]

    assert statuses == [200, 303, 303]


def test_reader_of_a_backup_has_no_session(
    signing: NodeProcess, keys: Keys, key: dict[str, str], admin: Visitor
) -> None:
    """Everything that is sealed here is in a dump of the database."""
    assert admin.get("queues").status == 200
    with psycopg.connect(keys.url, autocommit=True) as owner:
        receipt_key = number(owner, RECEIPT_KEY)
        until = number(owner, NOW) + SECONDS / 2
    session = Session(key_id=key["key"], account=ACCOUNT, until=until)
    # As it was sealed by an earlier release, too.
    content = msgspec.json.encode(session)
    mac = hmac.digest(
        hmac.digest(receipt_key, b"skipmq console session", "sha256"), content, "sha256"
    )
    forged = f"{urlsafe_b64encode(content).decode()}.{urlsafe_b64encode(mac).decode()}"
    seal = Seal(receipt_key, [])

    statuses = [
        ask(signing, each)
        for each in (forged, seal.close(session), Seal(receipt_key, [receipt_key]).close(session))
    ]

    assert statuses == [303] * 3
    whole = Seal(receipt_key, [b64decode(MASTER_KEY)]).close(session)
    assert ask(signing, whole) == 200


def test_rotation_of_the_receipt_key_ends_sessions(
    embedded_databases: Databases, request: pytest.FixtureRequest
) -> None:
    keys = Keys(embedded_databases.migrated())
    door = WsgiProcess if request.config.getoption("door") == "wsgi" else NodeProcess
    settings = {"auth": "on", "master_key": MASTER_KEY, "workers": 1}
    with door(database_url=as_node(keys.url), **settings) as process:
        key = keys.create()
        visitor = signed_in(process.ready(), key)
        assert visitor.get("queues").status == 200

        keys.run("rotate-receipts")

        eventually(lambda: visitor.get("queues").status == 303)
        assert signed_in(process, key).get("queues").status == 200


@pytest.mark.parametrize("change", ["key", "until", "nothing signed", "another key's"])
def test_cookie_that_no_node_has_made_is_none(
    signing: NodeProcess, admin: Visitor, change: str
) -> None:
    made = cookie(admin)
    content, _, mac = made.value.partition(".")
    found = json.loads(base64.urlsafe_b64decode(content))
    if change == "key":
        found["key_id"] = "AKIA" + "C" * 16
    elif change == "until":
        found["until"] += 3600
    elif change == "another key's":
        found["account"] = "210987654321"
    forged = base64.urlsafe_b64encode(json.dumps(found).encode()).decode()
    value = f"{forged}." if change == "nothing signed" else f"{forged}.{mac}"

    assert ask(signing, value) == 303
    # The cookie as it was made is one, or this proved nothing.
    assert ask(signing, made.value) == 200


def test_other_node_of_the_database_takes_the_session(keys: Keys, admin: Visitor) -> None:
    settings = {"auth": "on", "master_key": MASTER_KEY, "workers": 1}
    with NodeProcess(database_url=as_node(keys.url), **settings) as other:
        assert ask(other.ready(), cookie(admin).value) == 200


def test_console_of_another_database_on_the_host_leaves_the_form_as_it_is(
    node: NodeProcess, visitor: Visitor, key: dict[str, str]
) -> None:
    """Browsers send the cookies of one to the other; the databases have one template's keys."""
    token, here = visitor.csrf("sign-in"), visitor.url

    visitor.url = node.url
    assert Visitor.get(visitor, "/console/").status == 303
    visitor.url = here

    fields = {"key_id": key["key"], "secret": "wrong"}
    assert "Could not sign in" in visitor.post("sign-in", fields, csrf=token).body


def test_sign_out_ends_the_session_and_copies_of_its_cookie(
    signing: NodeProcess, keys: Keys, key: dict[str, str]
) -> None:
    settings = {"auth": "on", "master_key": MASTER_KEY, "workers": 1}
    with NodeProcess(database_url=as_node(keys.url), **settings) as second:
        nodes = (signing, second.ready())
        visitor, other = signed_in(signing, key), signed_in(signing, key)
        copy = cookie(visitor).value
        for node in nodes:
            eventually(lambda n=node: ask(n, copy) == 200)

        assert visitor.post("sign-out", csrf=visitor.csrf("queues")).status == 303

        assert visitor.get("queues").status == 303
        assert ask(signing, copy) == 303
        eventually(lambda: ask(second, copy) == 303)
        # Another session of the same key goes on.
        assert other.get("queues").status == 200


@pytest.mark.parametrize(
    ("target", "leads"),
    [
        (
            "/console/queues/orders/messages?state=visible",
            "/console/queues/orders/messages?state=visible",
        ),
        ("https://attacker.example/", "/console/"),
        ("//attacker.example/console/", "/console/"),
        ("/\\attacker.example", "/console/"),
        ("/console/../../attacker", "/console/"),
        ("/console//attacker.example", "/console/"),
        ("javascript:alert(1)", "/console/"),
        ("/console/queues\r\nSet-Cookie: a=b", "/console/"),
    ],
)
def test_sign_in_leads_nowhere_else(
    signing: NodeProcess, admin: Visitor, target: str, leads: str
) -> None:
    token = admin.csrf("queues")

    answer = admin.post("theme", {"theme": "dark", "back": target}, csrf=token)

    assert (answer.status, answer.headers["Location"]) == (303, leads)
    body = Visitor(signing.url).get(f"sign-in?next={quote(target)}").body
    assert f'name="next" value="{leads}"' in body
