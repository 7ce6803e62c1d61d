"""The walk of an operator who sees the console for the first time, at night, with pictures.

From the home page, by clicks and keys alone: which queue is in trouble, since when, who consumes
it, why its messages fail, which node is slow, what changed before; and mend it.
"""

import re
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from support.browser import KEYS, Browser
from support.http import eventually
from support.night import Night, night


@pytest.fixture
def shop(public_folder: Path) -> Iterator[Night]:
    with night(public_folder / "night") as found:
        yield found


class Walk:
    """The steps of the walk; each leaves pictures, and pages must be sound in all of them."""

    def __init__(self, browser: Browser, folder: Path) -> None:
        self.browser, self._folder = browser, folder
        self._number = count(1)
        browser.look("desktop", "light")
        browser.complaints()

    def seen(self, name: str) -> None:
        step = f"walk-{next(self._number):02}-{name}"
        self.browser.inspect(self._folder, step)

    def go(self, key: str, title: str) -> None:
        """Go to a page by its keys."""
        self.browser.press("g", key)
        eventually(lambda: self.browser.text("h1") == title)

    def open(self, name: str) -> None:
        """Go to a link or button by the tabulator, and press it."""
        self.browser.tab_to(name)
        self.browser.press(KEYS.ENTER)


def sign_in(walk: Walk, url: str, key: str, secret: str) -> None:
    walk.browser.open(f"{url}/console/")
    walk.browser.press(key, KEYS.TAB, secret, KEYS.ENTER)
    walk.browser.wait("Needs attention")


def find_trouble(walk: Walk) -> None:
    """Find which queues are in trouble, and since when."""
    wanted = (
        "No client receives from thumbnails",
        "Messages of payments fail in a new way: PaymentLocked",
        "Messages of payments moved to a dead-letter queue",
    )

    def are_shown() -> list[str]:
        texts = walk.browser.texts(".trouble")
        return texts if all(any(each in text for text in texts) for each in wanted) else []

    worst, *others = eventually(are_shown)
    assert wanted[0] in worst
    assert re.search(r"the oldest 2[4-9] minutes", worst)
    (moved,) = [each for each in others if wanted[2] in each]
    assert re.search(r"For (18|19|2.) minutes", moved)
    walk.seen("home")


def find_consumer(walk: Walk) -> None:
    """Find who consumes from the queue."""
    walk.browser.click("#queue-dead-lettered-payments")
    walk.browser.wait("Oldest message")
    walk.seen("queue")
    walk.browser.click("#to-consumers")
    walk.browser.wait("1 consumer in the last ten minutes")
    assert walk.browser.text("tbody th").split()[0] == "payments-worker"
    walk.seen("consumers")


def find_reason(walk: Walk) -> None:
    """Find why its messages fail."""
    walk.go("o", "Overview")
    walk.browser.click("#dead-dead-lettered-payments")
    eventually(lambda: walk.browser.count(".kinds li") == 2)
    locked, timeout = walk.browser.texts(".kinds .kind")
    assert locked == "PaymentLocked: payment # is being processed by another worker"
    assert timeout.startswith("GatewayTimeout")
    walk.seen("why")
    walk.browser.click(".kinds .kind")
    walk.browser.wait("the whole queue")
    assert walk.browser.count(".message") > 30
    walk.seen("found")


def find_slow_node(walk: Walk, process: int) -> None:
    walk.go("n", "Nodes")
    eventually(lambda: walk.browser.texts(".badge-bad") == ["slow: loop lag"], seconds=60)
    (row,) = [each for each in walk.browser.texts("tbody th") if "slow" in each]
    assert f"{process}-" in row
    walk.seen("nodes")


def find_change(walk: Walk) -> None:
    """Find what changed before."""
    walk.go("q", "Queues")
    walk.seen("queues")
    walk.browser.press("j", "j", KEYS.ENTER)
    eventually(lambda: walk.browser.text("h1") == "payments")
    walk.open("Charts")
    walk.browser.wait("Changes in the period")
    change, *_ = walk.browser.texts(".events li")
    assert "Settings changed: VisibilityTimeout=1 by deploy-bot" in change
    walk.seen("change")


def mend(walk: Walk) -> None:
    """Mend the setting, and redrive what failed by it."""
    walk.open("Settings")
    walk.browser.wait("Visibility timeout")
    walk.browser.tab_to("Visibility timeout")
    walk.browser.press("60", KEYS.ENTER)
    walk.browser.wait("Saved VisibilityTimeout.")
    walk.seen("setting")
    walk.go("d", "Dead letters")
    walk.seen("dead-letters")
    walk.browser.click("#redrive-payments-dead")
    walk.browser.wait("Rate limit")
    walk.open("Redrive…")
    walk.browser.wait("at most 100 a second")
    walk.open("Start redrive")
    walk.browser.wait("Started the redrive.")
    eventually(lambda: "completed" in walk.browser.text("#tasks"))
    walk.seen("redriven")


@pytest.mark.slow
def test_operator_finds_what_is_wrong_and_mends_it(
    shop: Night, browser: Browser, screenshots: Path
) -> None:
    walk = Walk(browser, screenshots)

    with shop.slowed():
        sign_in(walk, shop.nodes[0].url, **shop.keys["on-call"])
        find_trouble(walk)
        find_consumer(walk)
        find_reason(walk)
        find_slow_node(walk, shop.nodes[1].process.pid)
    find_change(walk)
    mend(walk)
    # The workers succeed again, until the new kinds of failure are an hour old.
    shop.pass_good_hour()

    walk.go("o", "Overview")
    browser.wait("Nothing needs attention")
    walk.seen("mended")
