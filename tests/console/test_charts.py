"""The charts of a queue, in a browser and as what they are drawn from."""

import json
import re
from itertools import count
from pathlib import Path
from typing import Any

import psycopg
import pytest

from skipmq.console import drawing
from support.browser import KEYS, Browser
from support.http import NodeProcess, client, eventually
from support.visitor import Visitor

_number = count(1)
# Six hours that come and go, with some minutes in which nothing happened.
MINUTES = """
  insert into skipmq.queue_minute (minute, queue_id, sent, received, deleted, dead_lettered,
    expired, messages)
  select date_trunc('minute', skipmq.clock()) - n * interval '1 minute', q.queue_id,
    900 + 700 * sin(n / 9.0) + (n * 37) %% 90, 880 + 700 * sin((n - 2) / 9.0) + (n * 53) %% 90,
    860 + 700 * sin((n - 2) / 9.0) + (n * 53) %% 90,
    case when n %% 11 < 3 then 60 + n %% 7 else 0 end,
    case when n %% 40 < 4 then 20 else 0 end,
    4000 + 2500 * cos(n / 40.0)
  from generate_series(1, 359) n, skipmq.queue q
  where q.name = %s and n not between 20 and 24
"""
SETTLED = """
  insert into skipmq.history (settled_at, sent_at, first_received_at, xid, id, queue_id,
    receive_count, body_bytes, attribute_bytes, message_id, outcome)
  select t, t - w * interval '1 ms', t - w * interval '0.4 ms', 1, n, q.queue_id, 1, 1, 0,
    gen_random_uuid(), 'deleted'
  from generate_series(1, 3000) n, skipmq.queue q,
    lateral (select skipmq.clock() - n * interval '6 seconds' as t,
      40 + 30 * sin(n / 100.0) + (n * 7919) %% 100
        + case when n %% 50 = 0 then 900 else 0 end as w) x
  where q.name = %s
"""


@pytest.fixture
def name() -> str:
    return f"charted-{next(_number)}"


@pytest.fixture
def sqs(node: NodeProcess) -> Any:
    return client(node.url)


@pytest.fixture
def busy(node: NodeProcess, sqs: Any, name: str) -> str:
    """Give the name of a queue with six hours behind it."""
    sqs.create_queue(QueueName=name)
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        owner.execute(MINUTES, (name,))
        owner.execute(SETTLED, (name,))
    return name


def test_charts_are_sound_in_both_widths_and_schemes(
    node: NodeProcess, browser: Browser, busy: str, screenshots: Path
) -> None:
    browser.look("phone", "light")
    browser.open(f"{node.url}/console/queues/{busy}/charts?minutes=360")
    browser.wait("Messages per minute")
    # A refresh would fold them.
    browser.hide(hidden=True)

    for unfolded in (False, True):
        if unfolded:
            browser.click("#numbers-1 summary")
        browser.inspect(screenshots, f"charts{'-unfolded' * unfolded}")


def test_period_is_chosen_and_numbers_unfolded_by_keyboard(
    node: NodeProcess, browser: Browser, busy: str, screenshots: Path
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/queues/{busy}/charts")
    assert browser.text("[aria-label=Period] [aria-current]") == "Last hour"
    assert browser.count("#numbers-1 tbody tr") == 60

    browser.tab_to("Last 15 minutes")
    browser.press(KEYS.ENTER)
    eventually(lambda: browser.count("#numbers-1 tbody tr") == 15)
    # A refresh would fold them.
    browser.hide(hidden=True)
    browser.tab_to("Numbers")
    browser.press(KEYS.ENTER)

    eventually(lambda: browser.shows("#numbers-1 tbody"))
    assert browser.shows("[aria-label^='Messages per minute, numbers']")
    browser.picture(screenshots / "charts-numbers.png")
    browser.hide(hidden=False)
    assert browser.complaints() == []


def test_charts_are_refreshed_and_show_what_happens(
    node: NodeProcess, browser: Browser, sqs: Any, name: str
) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    browser.look("desktop", "light")
    with browser.hastened():
        browser.open(f"{node.url}/console/queues/{name}/charts?minutes=15")
    assert browser.sees("no message was deleted")
    for _ in range(3):
        sqs.send_message(QueueUrl=url, MessageBody="x")
    (message, *_) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])

    def sums() -> tuple[int, ...]:
        script = (
            "return [1, 3].map((at) => [...document.querySelectorAll('#numbers-1 tbody tr')]"
            ".reduce((sum, row) => sum + (Number(row.children[at].textContent) || 0), 0))"
        )
        return tuple(browser.run(script))

    eventually(lambda: sums() == (3, 1))
    eventually(lambda: browser.sees("Time in queue, send to delete"))
    # One minute by itself is a dot that can be seen.
    dot = "return getComputedStyle(document.querySelector('.chart .alone')).strokeWidth"
    assert browser.run(dot) == "6px"
    assert browser.complaints() == []


def test_queue_without_history_says_how_to_have_it(node: NodeProcess, sqs: Any, name: str) -> None:
    sqs.create_queue(QueueName=name, Attributes={"HistoryMode": "off"})

    visitor = Visitor(node.url)
    page = visitor.get(f"queues/{name}/charts").body

    assert "this queue keeps no history" in page
    assert f'href="{visitor.address_of(f"queues/{name}/settings")}"' in page
    assert "send to delete" not in page


def test_minutes_are_shown_while_the_history_cannot_be_read(node: NodeProcess, busy: str) -> None:
    with psycopg.connect(node.owner_url) as owner:
        owner.execute("lock table skipmq.history in access exclusive mode")
        found = Visitor(node.url).get(f"queues/{busy}/charts")

    assert found.status == 200
    assert "Messages per minute" in found.body
    assert "could not be read from the history" in found.body
    assert "send to delete" not in found.body


def test_last_minute_of_the_charts_is_the_databases(node: NodeProcess, busy: str) -> None:
    minute = "select to_char(skipmq.clock() at time zone 'UTC', 'HH24:MI')"
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        before = owner.execute(minute).fetchone()
        page = Visitor(node.url).get(f"queues/{busy}/charts").body
        after = owner.execute(minute).fetchone()

    (last, *_) = re.findall(r'<th scope="row"><time[^>]*>([0-9:]+)</time></th>', page)
    assert (last,) in (before, after)


def test_one_crosshair_shows_the_values_of_all_charts(
    node: NodeProcess, browser: Browser, busy: str
) -> None:
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/queues/{busy}/charts?minutes=360")
    charts = browser.count(".drawing")
    # A refresh would take the crosshair away.
    browser.hide(hidden=True)

    browser.point(".drawing", right=40)

    places = "Math.round(parseFloat(e.getAttribute('x1')))"
    eventually(lambda: min(browser.each(".crosshair", places)) > 0)
    crosshairs, times = browser.each(".crosshair", places), browser.texts(".at")
    assert charts == len(crosshairs) == 4
    assert max(crosshairs) - min(crosshairs) < 4
    assert all(re.fullmatch("[0-9]{2}:[0-9]{2}", each) for each in times)
    row = "[...e.querySelectorAll('tbody tr')].find((r) => r.cells[0].textContent === '%s')"
    cells = f"[...({row % times[0]}).cells].map((cell) => cell.textContent)"
    (values,) = browser.each("#numbers-1", cells)
    assert browser.texts(".chart:first-child .legend b") == values[1:]

    browser.point("h1")
    eventually(lambda: browser.texts(".chart:first-child .legend b") == [""] * 5)
    browser.hide(hidden=False)
    assert browser.complaints() == []


def test_times_are_local_by_choice(node: NodeProcess, browser: Browser, busy: str) -> None:
    zone = {"timezoneId": "Asia/Kathmandu"}
    browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", zone)
    browser.look("desktop", "light")
    browser.open(f"{node.url}/console/queues/{busy}/charts?minutes=15")
    (time, utc) = browser.each(
        "#numbers-1 tbody tr:first-child time", "[e.dataset.time, e.innerHTML]"
    )[0]
    try:
        browser.click("#zone")

        eventually(lambda: browser.text("#zone") == "Local time")
        local = "select to_char(to_timestamp(%s) at time zone 'Asia/Kathmandu', 'HH24:MI')"
        with psycopg.connect(node.owner_url) as owner:
            row = owner.execute(local, (int(time),)).fetchone()
        shown = browser.each("#numbers-1 tbody tr:first-child time", "e.innerHTML")
        assert (shown[0],) == row
        assert shown[0] != utc
        browser.open(f"{node.url}/console/queues/{busy}/settings")
        assert "UTC+05:45" in browser.text("#attributes")
    finally:
        browser.click("#zone")
        browser.driver.execute_cdp_cmd("Emulation.setTimezoneOverride", {"timezoneId": "UTC"})
    assert browser.complaints() == []


def test_changes_of_the_queue_are_marked(
    node: NodeProcess, browser: Browser, sqs: Any, name: str
) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=url, Attributes={"DelaySeconds": "1"})
    page = f"{node.url}/console/queues/{name}/charts?minutes=15"

    eventually(lambda: "Settings changed" in Visitor(node.url).get(f"queues/{name}/charts").body)
    browser.look("desktop", "light")
    browser.open(page)

    # Beside them may be what befell the shared node.
    texts = browser.texts(".events li")
    places = [
        [place for place, each in enumerate(texts) if text in each]
        for text in ("Settings changed: DelaySeconds=1 by", "Queue created by")
    ]
    ((changed,), (created,)) = places
    assert changed < created
    assert browser.count(".chart:first-child .event-mark") == len(texts)
    assert browser.complaints() == []


def test_week_has_its_hours_and_says_where_data_begins(node: NodeProcess, busy: str) -> None:
    with psycopg.connect(node.owner_url, autocommit=True) as owner:
        owner.execute(
            "insert into skipmq.queue_period (start, queue_id, sent, received, deleted,"
            " dead_lettered, expired, messages)"
            " select date_bin('10 minutes', skipmq.clock(), 'epoch') - n * interval '10 minutes',"
            " queue_id, 7, 0, 0, 0, 0, n from skipmq.queue, generate_series(288, 293) n"
            " where name = %s",
            (busy,),
        )
        owner.execute(
            "update skipmq.queue set created_at = created_at - interval '8 days' where name = %s",
            (busy,),
        )

    page = Visitor(node.url).get(f"queues/{busy}/charts?minutes=10080").body

    assert "Messages per hour" in page
    assert "Nothing is recorded before" in page
    numbers = page.partition('id="numbers-1"')[2].partition("</table>")[0]
    assert numbers.count("<tr><th scope") == 168 + 1
    sent = [
        int(each.replace(",", ""))
        for each in re.findall(r'</th><td class="num">([0-9,]+)', numbers)
    ]
    assert 42 in {sum(pair) for pair in zip(sent, [*sent[1:], 0], strict=True)}


def test_nothing_is_drawn_before_the_queue_was_created(
    node: NodeProcess, sqs: Any, name: str
) -> None:
    url = sqs.create_queue(QueueName=name)["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="x")

    page = Visitor(node.url).get(f"queues/{name}/charts").body

    numbers = page.partition('id="numbers-1"')[2].partition("</table>")[0]
    rows = re.findall(r"</th>(.*?)</tr>", numbers.partition("<tbody>")[2])
    assert ("none" in rows[-1], "none" in rows[0]) == (True, False)
    assert "did not exist" not in page


def test_texts_of_charts_have_one_size_at_each_width(
    node: NodeProcess, browser: Browser, busy: str
) -> None:
    heights = []
    for width in ("phone", "desktop"):
        browser.look(width, "light")
        browser.open(f"{node.url}/console/queues/{busy}/charts")
        heights += browser.each(".plot text", "Math.round(e.getBoundingClientRect().height)")

    assert len({*heights}) == 1


VALUES = {"a": [0, None, 7, 1234], "b": [1, 1, 1, 1]}


def test_axis_has_round_ticks_and_lines_stay_on_it() -> None:
    colours = {"a": "sent", "b": "dead"}
    chart = drawing.chart("t", range(0, 240, 60), colours, VALUES)

    assert [text for _, text in chart.ticks] == ["0", "500", "1,000", "1,500"]
    assert [time for _, time in chart.marks] == [0, 60, 120, 180]
    # A missing value ends a line, and what stands by itself is a point.
    assert [len(parts) for _, _, parts in chart.lines] == [2, 1]
    # The line to the present step is drawn apart.
    assert [len(part.split()) for _, part in chart.unfinished] == [2, 2]
    points = [point for _, _, parts in chart.lines for part in parts for point in part.split()]
    points += [point for _, part in chart.unfinished for point in part.split()]
    for across, down in (map(float, point.split(",")) for point in points):
        assert 0 <= across <= drawing.WIDTH
        assert drawing.TOP <= down <= drawing.HEIGHT - drawing.BOTTOM
    assert chart.columns[1][1] == ["none", "1"]
    assert json.dumps(chart.columns[3][1]) == '["1,234", "1"]'


@pytest.mark.parametrize(
    ("micros", "shown"),
    [(0, "0"), (999, "999 µs"), (1_500, "1.5 ms"), (2_000_000, "2 s"), (90_000_000, "1.5 min")],
)
def test_span_has_the_unit_that_suits_it(micros: int, shown: str) -> None:
    assert drawing.span(micros) == shown
