"""The page of a report on 100 queues, as a person reads it in a browser."""

import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")
pytest.importorskip("duckdb")
pytest.importorskip("sqlglot")

import duckdb
import pyarrow as pa

from skipmq.analytics import delta, queue_settings
from skipmq.analytics.reports import page, report
from skipmq.analytics.reports.engines.duckdb import DuckEngine
from skipmq.analytics.reports.page.numbers import count, duration
from skipmq.analytics.reports.period import Period
from support.browser import KEYS, Browser
from support.http import eventually
from support.settled import NOON, row

DAY = Period(NOON - timedelta(hours=12), NOON + timedelta(hours=12))
YESTERDAY = -86_400
EVIL = "<img src=x onerror=document.title='broken'>"
# Messages of each queue, of which the busiest are drawn at first.
QUEUES = {"orders": 400, "mails": 200, "payments.fifo": 100, "strange": 60} | {
    f"small-{n:03}": 4 for n in range(96)
}


def rows() -> Iterator[dict[str, Any]]:
    """Give a day of all queues, and half of it the day before."""
    number = 0
    for name, messages in QUEUES.items():
        for each in range(messages):
            for begin in (0, YESTERDAY)[: 1 + each % 2]:
                number += 1
                sent = begin + 70 * each - 14_000
                fifo = {"group_id": f"group {each % 9}"} if name.endswith(".fifo") else {}
                yield row(
                    number, sent=sent, received=sent + 1 + each % 7, settled=sent + 10 + each % 50,
                    queue=name, outcome="dead-lettered" if each % 40 == 39 else "deleted",
                    receive_count=1 + (each % 10 == 0), sender=EVIL if each % 40 == 39 else "web",
                    node=EVIL if each % 3 == 0 else "node-a", **fifo,
                )  # fmt: skip


@pytest.fixture(scope="module")
def facts() -> page.ReportData:
    place = {"account": "000000000000", "region": "us-east-1"}
    settings = [place | {"queue": name, "visibility_timeout": 30} for name in QUEUES]
    with duckdb.connect() as connection:
        engine = DuckEngine(connection)
        history = pa.Table.from_pylist(list(rows()), schema=delta.SCHEMA)
        connection.register("history", history)
        queues = engine.queues(pa.Table.from_pylist(settings, schema=queue_settings.SCHEMA))
        with report.reports(engine, "history", queues, DAY) as computed:
            tables = {name: compute().to_pylist() for name, compute in computed.items()}
    # No queue is called so today; nodes, senders and groups may be.
    for each in (each for found in tables.values() for each in found):
        if each["queue"] == "strange":
            each["queue"] = EVIL
    return page.ReportData("a lake", DAY, tables, live=False)


@pytest.fixture(scope="module")
def url(facts: page.ReportData, tmp_path_factory: pytest.TempPathFactory) -> str:
    return report.write_page(facts, tmp_path_factory.mktemp("page")).as_uri()


@pytest.fixture(scope="module")
def staying(chromium: Browser) -> Iterator[Browser]:
    """Give the browser, which stays on its page after a test: to draw it is what takes time."""
    yield chromium
    chromium.leave()


# Takes the filter, the focus, with it the tooltip, and the scrolling away.
AT_FIRST = """
  const [top, field] = ["header", "#queue"].map((each) => document.querySelector(each));
  if (field.value) { field.value = ""; field.dispatchEvent(new Event("input")); }
  top.tabIndex = -1;
  top.focus();
  top.removeAttribute("tabindex");
  scrollTo(0, 0);
"""


@pytest.fixture
def shown(staying: Browser, url: str) -> Browser:
    """Give the browser with the page as it is at first, on a desk."""
    staying.look("desktop", "light")
    if staying.driver.current_url.partition("#")[0] == url:
        staying.run(AT_FIRST)
    else:
        staying.open(url)
    eventually(lambda: is_drawn(staying))
    return staying


def is_drawn(browser: Browser) -> bool:
    """Return whether all charts that a person sees are drawn, and none is to be drawn again."""
    script = """const all = [...document.querySelectorAll("[data-chart]")];
      const seen = all.filter((e) => e.checkVisibility());
      const is_busy = document.querySelector("main").ariaBusy !== "false";
      return !is_busy && seen.every((e) => e.querySelector(".plot")?.firstChild)"""
    return bool(browser.run(script))


def drawn(browser: Browser, section: str) -> list[str]:
    """Return the queues whose panels are seen in a section."""
    script = f"""return [...document.querySelectorAll("#{section} figcaption b")]
      .filter((e) => e.checkVisibility()).map((e) => e.textContent)"""
    return list(dict.fromkeys(browser.run(script)))


def listed(browser: Browser, section: str) -> list[str]:
    """Return the queues whose rows are seen in a section's table."""
    script = f"""return [...document.querySelectorAll("#{section} tbody td:first-child")]
      .filter((e) => e.checkVisibility()).map((e) => e.textContent)"""
    return list(dict.fromkeys(browser.run(script)))


def found(browser: Browser) -> list[str]:
    """Return the queues of the findings that are seen."""
    script = """return [...document.querySelectorAll(".findings b")]
      .filter((e) => e.checkVisibility()).map((e) => e.textContent)"""
    return list(dict.fromkeys(browser.run(script)))


def test_page_is_sound_in_both_widths_and_schemes(
    browser: Browser, url: str, screenshots: Path
) -> None:
    for look in browser.looks():
        for fragment in ("", "#queue=orders"):
            browser.open("about:blank")
            browser.open(url + fragment)
            eventually(lambda: is_drawn(browser))
            assert browser.complaints() == []
            browser.picture(screenshots / f"report-{look}{'-chosen' if fragment else ''}.png")
            across = "return [document.documentElement.scrollWidth, innerWidth]"
            assert len(set(browser.run(across))) == 1


def test_desk_cuts_no_column(shown: Browser) -> None:
    cut = """return [...document.querySelectorAll(".wide")].filter((e) => e.checkVisibility()
      && e.scrollWidth > e.clientWidth).map((e) => e.ariaLabel)"""

    assert shown.run(cut) == []


def test_phone_has_the_section_of_the_worst_finding_open_and_others_when_asked_for(
    browser: Browser, url: str
) -> None:
    opened = """return [...document.querySelectorAll("section")]
      .filter((e) => e.querySelector(".fold").open).map((e) => e.id)"""
    browser.look("phone", "light")
    browser.open("about:blank")
    browser.open(url)
    eventually(lambda: browser.run(opened) == ["redelivery"])
    eventually(lambda: is_drawn(browser))
    assert browser.run("return document.documentElement.scrollHeight") < 6_000

    browser.click("nav a[href='#traffic']")

    eventually(lambda: browser.run(opened) == ["traffic", "redelivery"] and is_drawn(browser))


def test_page_draws_the_busiest_queues_at_first(shown: Browser) -> None:
    busiest = ["orders", "mails", "payments.fifo", EVIL, "small-000", "small-001"]

    assert drawn(shown, "latency") == drawn(shown, "traffic") == busiest
    assert "6 of 100 queues" in shown.text("#traffic")
    assert len(listed(shown, "comparison")) == 60


def test_filter_by_keyboard_shows_one_queue_and_nothing_of_others(shown: Browser) -> None:
    shown.tab_to("Queue")
    shown.press("small-050")

    eventually(lambda: drawn(shown, "latency") == ["small-050"])
    assert drawn(shown, "traffic") == drawn(shown, "consumers") == ["small-050"]
    assert listed(shown, "comparison") == listed(shown, "latency") == ["small-050"]
    assert found(shown) == ["small-050"]
    assert shown.run("return location.hash") == "#queue=small-050"

    shown.press(KEYS.ESCAPE)

    eventually(lambda: drawn(shown, "latency")[0] == "orders")
    assert shown.run("return location.hash") == ""


def test_fragment_keeps_the_filter_and_the_section(browser: Browser, url: str) -> None:
    browser.look("desktop", "light")
    browser.open("about:blank")
    browser.open(f"{url}#queue=payments.fifo")
    eventually(lambda: drawn(browser, "latency") == ["payments.fifo"])
    assert browser.each("#queue", "e.value") == ["payments.fifo"]

    browser.click("nav a[href='#groups']")

    eventually(lambda: browser.run("return location.hash") == "#queue=payments.fifo&at=groups")
    top = "return document.querySelector('#groups').getBoundingClientRect().top"
    eventually(lambda: abs(browser.run(top)) < 100)
    assert drawn(browser, "latency") == ["payments.fifo"]
    assert listed(browser, "groups") == ["payments.fifo"]


def test_filter_by_part_of_a_name_draws_the_first_and_says_how_many(shown: Browser) -> None:
    shown.enter("#queue", "SMALL-")

    eventually(lambda: len(drawn(shown, "latency")) == 12)
    assert shown.text("#found") == "The 12 busiest of 96 matching queues."

    shown.enter("#queue", "x")

    eventually(lambda: shown.text("#found") == "No matching queue.")
    assert drawn(shown, "latency") == listed(shown, "latency") == []


def of(facts: page.ReportData, table: str, queue: str) -> list[Any]:
    return [each for each in facts.tables[table] if each["queue"] == queue]


def test_tooltip_of_the_keyboard_says_the_numbers_of_a_step(
    shown: Browser, facts: page.ReportData
) -> None:
    last, before = of(facts, "traffic", "orders")[-1:-3:-1]
    shown.tab_to("orders, messages in 30 min")

    eventually(lambda: shown.shows("#tip"))
    assert f"arrived {count(last['arrived'])}\ndeleted {count(last['deleted'])}" in said(shown)

    away = distance(shown)
    shown.driver.execute_async_script("addEventListener('scroll', arguments[0]); scrollBy(0, 90)")

    assert distance(shown) == away

    shown.press(KEYS.ARROW_LEFT)

    since = before["since"]
    assert said(shown).startswith(f"{since.day} {since:%b %H:%M}, for 30 min\n")
    assert f"arrived {count(before['arrived'])}\ndeleted {count(before['deleted'])}" in said(shown)

    shown.press(KEYS.ESCAPE)

    assert not shown.shows("#tip")


def distance(browser: Browser) -> list[float]:
    """Return how far the tooltip that is shown is from its step."""
    assert browser.shows("#tip")
    script = """const [step, tip] = [".steps_marks .on", "#tip"].map((each) =>
        document.querySelector(each).getBoundingClientRect());
      return [tip.x - step.x, tip.y - step.y]"""
    found: list[float] = browser.run(script)
    return found


def said(browser: Browser) -> str:
    return browser.text("#tip")


def test_tooltip_follows_the_pointer(shown: Browser, facts: page.ReportData) -> None:
    step = of(facts, "latency", "orders")[4]
    shown.run("document.querySelector('#latency').scrollIntoView()")
    across = """const plot = document.querySelector("#latency .panel:nth-child(3) .plot");
      const [all, step] = [plot, plot.querySelectorAll(".steps_marks path")[4]]
        .map((each) => each.getBoundingClientRect());
      return step.x + step.width / 2 - all.x - all.width / 2"""
    shown.point("#latency .panel:nth-child(3) .plot", round(shown.run(across)))

    eventually(lambda: shown.shows("#tip"))
    values = [f"{q} {duration(step[f'send_to_delete_{q}'])}" for q in ("p50", "p95", "p99")]
    assert said(shown).splitlines()[1:] == values

    shown.point("h1")
    eventually(lambda: not shown.shows("#tip"))


AXES = """return [...document.querySelectorAll("#%s .grid.%s")].map((grid) =>
  [...grid.querySelectorAll(".plot")].map((plot) =>
    [...plot.querySelectorAll(".role-axis-label text")].map((e) => e.textContent).join("|")))"""


def test_charts_side_by_side_have_one_scale_and_one_time_and_bars_as_high_as_their_numbers(
    shown: Browser, facts: page.ReportData
) -> None:
    sections = ("latency", "traffic", "backlog", "consumers")
    for section in sections:
        for grid in shown.run(AXES % (section, "all")):
            assert len(grid) > 3, section
            assert len(set(grid)) == 1, section

    shown.enter("#queue", "s")
    eventually(lambda: len(drawn(shown, "traffic")) == 12 and is_drawn(shown))

    for section in sections:
        for grid in shown.run(AXES % (section, "chosen")):
            assert len(grid) > 2, section
            assert len(set(grid)) == 1, section

    most = {
        name: max(r["deleted"] for r in of(facts, "traffic", name)) for name in ("orders", "mails")
    }
    assert most["orders"] > 1
    script = """return Object.fromEntries([...document.querySelectorAll("#traffic .chosen .panel")]
      .map((panel) => [panel.querySelector("b").textContent,
        Math.max(...[...panel.querySelectorAll(".layer_0_marks path[fill='var(--teal)']")]
          .map((e) => e.getBoundingClientRect().height))]))"""

    heights = shown.run(script)

    ratio = heights["orders"] / heights["mails"]
    assert ratio == pytest.approx(most["orders"] / most["mails"], rel=0.05)
    small = max(r["deleted"] for r in of(facts, "traffic", "small-000"))
    ratio = heights["orders"] / heights["small-000"]
    assert ratio == pytest.approx(most["orders"] / small, rel=0.05)


def test_names_that_look_like_markup_are_text(shown: Browser) -> None:
    shown.enter("#queue", "<img")
    eventually(lambda: drawn(shown, "consumers") == [EVIL] and is_drawn(shown))
    shown.tab_to(EVIL)

    eventually(lambda: shown.shows("#tip"))
    assert shown.count("img") == 0
    assert re.match("SkipMQ report", shown.driver.title)
    assert shown.complaints() == []


def test_page_of_nothing_has_no_errors(
    browser: Browser, facts: page.ReportData, tmp_path: Path
) -> None:
    nothing = page.ReportData("a lake", DAY, {name: [] for name in facts.tables}, live=False)
    browser.look("phone", "dark")

    browser.open(report.write_page(nothing, tmp_path).as_uri())

    assert browser.sees("No message was settled in this period")
    assert browser.count("#queue") == 0
    assert browser.complaints() == []


def test_bar_of_timeouts_has_the_numbers_of_each_queue(
    shown: Browser, facts: page.ReportData
) -> None:
    row = of(facts, "visibility", "mails")[0]
    shown.tab_to("all queues, processing time")
    shown.press(KEYS.HOME)
    shown.press(KEYS.ARROW_DOWN)

    eventually(lambda: said(shown).startswith("mails, first receive to delete\n"))
    assert f"p99 {duration(row['processing_p99'])}" in said(shown)


def test_charts_have_the_width_of_a_phone_that_was_turned(browser: Browser, url: str) -> None:
    browser.look("desktop", "light")
    browser.open(url)
    eventually(lambda: is_drawn(browser))
    wide = """const [plot] = document.querySelectorAll("#traffic .plot");
      return [plot.clientWidth, plot.firstChild.getBoundingClientRect().width]"""
    before = browser.run(wide)

    browser.look("phone", "light")

    eventually(lambda: browser.run(wide)[0] != before[0] and len(set(browser.run(wide))) == 1)


def test_page_without_scripts_names_what_needs_them(browser: Browser, url: str) -> None:
    browser.look("desktop", "light")
    switch = "Emulation.setScriptExecutionDisabled"
    browser.driver.execute_cdp_cmd(switch, {"value": True})
    try:
        browser.open("about:blank")
        browser.open(url)

        assert not browser.shows("#filter")
        assert browser.sees("The charts need JavaScript; the tables and files have their numbers.")
        assert browser.shows("#latency tbody")
    finally:
        browser.driver.execute_cdp_cmd(switch, {"value": False})
