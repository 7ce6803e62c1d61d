"""The page that is opened when somebody is paged: in order, replicated, unavailable, refused."""

from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg
import pytest

from skipmq.database import embedded
from support import servers, standby
from support.browser import Browser
from support.clock import connect
from support.http import NodeProcess, eventually, raw
from support.key_commands import ACCOUNT, Keys
from support.postgres import Databases, as_node
from support.proxy import Proxy
from support.visitor import Visitor, signed_in

# Where no connections are reserved but for superusers.
OPEN_TO_NODES = (
    "select current_setting('max_connections')::int"
    " - current_setting('superuser_reserved_connections')::int"
)


def facts(browser: Browser) -> dict[str, str]:
    """Return what the page says, by the term that stands in front of it."""
    script = (
        "return [...document.querySelectorAll('#database dt')]"
        ".map(e => [e.innerText, e.nextElementSibling.innerText])"
    )
    return dict(browser.run(script))


def test_page_says_what_the_server_says(node: NodeProcess, browser: Browser) -> None:
    with psycopg.connect(node.owner_url) as owner:
        version = owner.execute("show server_version").fetchone()
        most = owner.execute(OPEN_TO_NODES).fetchone()
    assert version is not None
    assert most is not None
    browser.look("desktop", "light")

    with browser.hastened():
        browser.open(f"{node.url}/console/database")

    # The janitor of a node that has just started may have no session yet.
    eventually(lambda: browser.sees("1 worker process and 1 janitor"), 30)
    found = facts(browser)
    assert browser.text(".status") == "Writable"
    assert found["PostgreSQL"] == version[0].split()[0]
    assert found["Sessions"].endswith(f"of {most[0]}")
    assert found["Standbys"] == "0"
    assert found["Schema"].startswith("0001")
    # Other tests may have frozen the server of this node for a moment.
    assert (found["Last outage"] == "none since the start") == (found["Outages"] == "0")
    assert browser.sees("No standby is connected.")
    assert browser.sees("this process")
    assert browser.complaints() == []


def test_snapshot_that_is_held_shows_when_the_page_refreshes(
    node: NodeProcess, browser: Browser
) -> None:
    with browser.hastened():
        browser.open(f"{node.url}/console/database")
    eventually(lambda: facts(browser)["Oldest snapshot"] == "none")
    with psycopg.connect(node.owner_url) as held:
        held.execute("set transaction isolation level repeatable read")
        held.execute("select count(*) from skipmq_views.queue")

        eventually(lambda: facts(browser)["Oldest snapshot"].endswith(" s"))
    assert browser.complaints() == []


@pytest.fixture
def replicated(server_folder: Path) -> Iterator[tuple[NodeProcess, str]]:
    """Give a node whose commits a standby acknowledges, and the URL of the owner."""
    place = server_folder / "console-replicated"
    with ExitStack() as stack:
        server = stack.enter_context(servers.start(place / "first", migrated=True))
        url = Databases(server).migrated()
        standby.copy(server.url, place / "second", "follower")
        stack.enter_context(embedded.start(place / "second"))
        with connect(url) as owner:
            standby.wait_for_standby(owner, "follower")
        yield stack.enter_context(NodeProcess(database_url=as_node(url), workers=1)).ready(), url
        with connect(url) as owner:
            standby.wait_for_standby(owner, "")


def test_standbys_are_listed_or_the_grant_is_named(
    replicated: tuple[NodeProcess, str], browser: Browser, screenshots: Path
) -> None:
    node, url = replicated
    page = f"{node.url}/console/database"

    browser.look("desktop", "light")
    browser.open(page)
    browser.wait("yes, sync")
    browser.inspect(screenshots, "database-standby")

    assert browser.text("tbody th").startswith("follower")
    assert browser.text("[data-label=State]") == "streaming"
    assert browser.sees("1 of 1 standbys acknowledge each commit, 1 connected.")
    with connect(url) as owner:
        owner.execute("set synchronous_commit = local")
        owner.execute("create role plain login")
        owner.execute("grant usage, create on schema skipmq to plain")
        owner.execute("alter function skipmq.database_overview() owner to plain")
        owner.execute("grant execute on all functions in schema skipmq to plain")
    eventually(lambda: "pg_monitor" in raw(page).body)
    browser.open(page)
    assert 'grant pg_monitor to "plain";' in browser.text("pre")
    assert browser.sees("1 standby is connected, but the owner of the schema lacks the privilege")
    assert browser.complaints() == []


def test_page_works_while_the_database_is_unreachable_and_says_when_it_came_back(
    embedded_databases: Databases, browser: Browser, screenshots: Path
) -> None:
    url = embedded_databases.migrated()
    parts = psycopg.conninfo.conninfo_to_dict(url)
    socket = Path(str(parts["host"])) / ".s.PGSQL.5432"
    with ExitStack() as stack:
        proxy = stack.enter_context(Proxy(socket))
        through = f"postgresql://skipmq_node@127.0.0.1:{proxy.port}/{parts['dbname']}"
        node = stack.enter_context(NodeProcess(database_url=through, workers=1)).ready()
        page = f"{node.url}/console/database"
        with browser.hastened():
            browser.open(page)
        assert browser.text(".status") == "Writable"

        with proxy.refusing():
            eventually(lambda: browser.text(".status") == "Unreachable")
            eventually(lambda: browser.sees("The data below is"))
            assert facts(browser)["Database available"] == "no"
            assert facts(browser)["Last outage"].startswith("now")
            assert facts(browser)["Connected to"].startswith(f"127.0.0.1 port {proxy.port}")
            assert facts(browser)["Schema"].startswith("0001")
            with browser.hastened():
                browser.open(page)
            browser.wait("Unreachable")
            browser.inspect(screenshots, "database-unreachable")

        eventually(lambda: browser.text(".status") == "Writable")
        eventually(lambda: facts(browser)["Outages"] == "1")
        assert facts(browser)["Last outage"].startswith("ended ")
        assert not browser.count("#stale")
        assert browser.complaints() == []


def test_state_is_said_by_its_name(embedded_databases: Databases, browser: Browser) -> None:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as node, connect(url) as owner:
        node.ready()
        owner.execute("revoke execute on function skipmq.purge_queue from skipmq_node")
        page = f"{node.url}/console/database"
        eventually(lambda: "No privilege" in raw(page).body)
        browser.open(page)
        assert browser.text(".status") == "No privilege"
        assert browser.sees("The nodes lack a privilege")
        assert browser.sees("Run skipmq migrate as the owner of the schema")
        assert facts(browser)["PostgreSQL"]


def test_only_who_may_all_sees_what_accounts_share(signing: NodeProcess, keys: Keys) -> None:
    admin = signed_in(signing, keys.create())
    some = signed_in(signing, keys.create(ACCOUNT, "--role", "admin", "--queue", "orders"))
    reader = signed_in(signing, keys.create(ACCOUNT, "--role", "reader"))
    operator = signed_in(signing, keys.create(ACCOUNT, "--role", "operator"))

    for allowed in (admin, operator):
        assert "Primary uptime" in allowed.get("database").body
        assert f'hx-get="{allowed.address_of("database")}' in allowed.get("database").body
    for refused in (some, reader):
        answer = refused.get("database")
        assert answer.status == 200
        assert "Your key may not view the database" in answer.body
        assert "Primary uptime" not in answer.body
        # Not asked for again every few seconds: each refusal is on the record.
        assert f'hx-get="{refused.address_of("database")}' not in answer.body
    stranger = Visitor(signing.url).get("database")
    assert (stranger.status, "sign-in" in stranger.headers["Location"]) == (303, True)


def test_session_that_blocks_another_is_terminated(
    signing: NodeProcess, keys: Keys, browser: Browser
) -> None:
    admin = keys.create("000000000000")
    signed_in(signing, admin)
    browser.open(f"{signing.url}/console/sign-in")
    browser.enter("[name=key_id]", admin["key"])
    browser.enter("[name=secret]", admin["secret"])
    browser.click("main form button")
    browser.wait("Queues")
    browser.look("desktop", "light")
    with (
        closing(psycopg.connect(keys.url, application_name="forgotten")) as holder,
        closing(psycopg.connect(keys.url, application_name="late")) as late,
    ):
        holder.execute("lock table skipmq.noisy_tenant in share mode")
        late.pgconn.send_query(b"begin; lock table skipmq.noisy_tenant in row exclusive mode")
        blocks = f"blocks {late.info.backend_pid}"
        with browser.hastened():
            browser.open(f"{signing.url}/console/database")
        eventually(lambda: browser.sees("Locks that sessions wait for"), 30)
        assert browser.sees(blocks)
        browser.open(f"{signing.url}/console/database/sessions")

        browser.click(f"[aria-label='End session {holder.info.backend_pid}']")
        browser.click("details[open] [value=terminate]")

        browser.wait(f"Terminated session {holder.info.backend_pid}.")
        with pytest.raises(psycopg.OperationalError):
            holder.execute("select 1")


def test_only_keys_of_the_own_account_see_sessions_and_end_them(
    node: NodeProcess, signing: NodeProcess, keys: Keys
) -> None:
    other = signed_in(signing, keys.create())

    assert "Your key may not view the database" in other.get("database/sessions").body
    unsigned = Visitor(node.url).get("database/sessions").body
    assert "Sessions of the database server" in unsigned
    assert "End session" not in unsigned
    assert "Without signatures the console ends no session" in unsigned
