"""The page of the runbook."""

import re

from skipmq.broker.trouble_kinds import KINDS
from support.browser import Browser
from support.http import NodeProcess
from support.key_commands import ACCOUNT, Keys
from support.visitor import Visitor, signed_in


def test_runbook_is_for_all_who_may_sign_in_and_has_what_troubles_and_its_links_lead_to(
    signing: NodeProcess, keys: Keys
) -> None:
    stranger = Visitor(signing.url).get("runbook")
    reader = signed_in(signing, keys.create(ACCOUNT, "--role", "reader", "--queue", "one"))

    answer = reader.get("runbook")

    assert "/sign-in?" in stranger.headers["Location"]
    assert answer.status == 200
    anchors = re.findall(r' id="([^"]+)"', answer.body)
    links = re.findall(r'<a href="([^"]+)"', answer.body.partition("<article")[2])
    assert len(anchors) == len(set(anchors))
    assert {kind.section for kind in KINDS.values()} <= {*anchors}
    assert {link for link in links if link.startswith("#")} <= {f"#{each}" for each in anchors}
    assert all(re.match("#|/console/|https?://", link) for link in links)


def test_page_has_the_text_and_not_what_is_for_tests_of_it(
    signing: NodeProcess, keys: Keys
) -> None:
    body = signed_in(signing, keys.create()).get("runbook").body

    article = body.partition("<article")[2].partition("</article>")[0]

    assert "&lt;!--" not in article
    assert "psql -d skipmq -c &#39;select * from skipmq.table_lock()&#39;" in article
    assert "step 2 of upgrading (documentation: operate/upgrade.md)." in article


def test_section_that_was_asked_for_is_shown_after_the_sign_in(
    signing: NodeProcess, keys: Keys, browser: Browser
) -> None:
    key = keys.create()

    browser.open(f"{signing.url}/console/sign-in?next=/console/runbook#what-waits")
    browser.enter("[name=key_id]", key["key"])
    browser.enter("[name=secret]", key["secret"])
    browser.click("main form button")

    browser.wait("Runbook")
    assert browser.run("return location.pathname + location.hash") == "/console/runbook#what-waits"
