"""The dashboards ask a real Prometheus, which scrapes a real node, and every panel has data."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from string import Template
from typing import Any

import pytest

from skipmq.broker.statistics import QueueStatistics
from skipmq.server import exposition
from support.http import ACCOUNT, ROOT, NodeProcess, client, eventually, free_port
from support.postgres import Databases, as_node
from support.prometheus import Prometheus

GRAFANA = ROOT / "deploy" / "grafana"
RULES = ROOT / "deploy" / "prometheus" / "skipmq.rules.yml"
DASHBOARDS = {file.stem: json.loads(file.read_text()) for file in sorted(GRAFANA.glob("*.json"))}
EACH = pytest.mark.parametrize("name", DASHBOARDS)
# What Grafana itself puts in.
TIMES = {"__rate_interval": "1m", "__range": "5m"}
VALUES = TIMES | {
    "cluster": "main",
    "account": ACCOUNT,
    "region": "us-east-1",
    "filter": "",
    "queue": "orders|dead",
    "instance": ".+",
}
# Panels that have no data here, and why.
EMPTY = {
    "Standby lag": "the server of the test has no standby",
    "Standby lag in WAL": "the server of the test has no standby",
    "Table lock": "no table is locked",
    "Snapshot holder": "no transaction is a minute old",
    "Repeated messages": "no message is ten minutes old",
    "Certificate": "the node of the test has none",
    "Refused callers": "the node of the test checks no keys",
}


def panels(name: str) -> list[dict[str, Any]]:
    return [panel for panel in DASHBOARDS[name]["panels"] if panel["type"] != "row"]


def variables(name: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = DASHBOARDS[name]["templating"]["list"]
    return found


def selectors(name: str) -> list[str]:
    """Return what the variables ask for."""
    return [each["query"]["query"] for each in variables(name) if each["type"] == "query"]


def expressions(name: str) -> list[str]:
    return [target["expr"] for panel in panels(name) for target in panel["targets"]]


def annotations(name: str) -> list[str]:
    return [each["expr"] for each in DASHBOARDS[name]["annotations"]["list"]]


def labels(panel: dict[str, Any], target: dict[str, Any]) -> frozenset[str]:
    """Return the labels that the legend and the links of a panel show of a series."""
    links = panel["fieldConfig"]["defaults"].get("links", [])
    text = target["legendFormat"] + " ".join(link["url"] for link in links)
    named = re.findall(r"\{\{(\w+)\}\}|\$\{__(?:data\.fields|field\.labels)\.(\w+)\}", text)
    return frozenset(a or b for a, b in named)


def texts(value: Any) -> Iterator[str]:
    """Give every string in a dashboard."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from texts(each)


def test_there_are_four_dashboards_with_fixed_uids() -> None:
    assert {name: dashboard["uid"] for name, dashboard in DASHBOARDS.items()} == {
        name: f"skipmq-{name}" for name in ("database", "node", "overview", "queue")
    }


@EACH
def test_panels_have_an_id_of_their_own_a_sentence_and_a_unit(name: str) -> None:
    ids = [panel["id"] for panel in DASHBOARDS[name]["panels"]]

    assert len(ids) == len(set(ids))
    for panel in panels(name):
        assert re.fullmatch(r"[A-Z].*[^.]\.", panel["description"]), panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]
        assert {target["datasource"]["uid"] for target in panel["targets"]} == {"${datasource}"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])


@EACH
def test_panels_lie_side_by_side(name: str) -> None:
    places = [panel["gridPos"] for panel in DASHBOARDS[name]["panels"]]
    cells = [
        (x, y)
        for place in places
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]

    assert max(x for x, _ in cells) == 23
    assert len(cells) == len(set(cells))


@EACH
def test_links_lead_to_dashboards_and_set_variables_that_they_have(name: str) -> None:
    links = [text for text in texts(DASHBOARDS[name]) if text.startswith("/d/")]
    found = {dashboard["uid"]: name for name, dashboard in DASHBOARDS.items()}

    assert DASHBOARDS[name]["links"][0]["tags"] == DASHBOARDS[name]["tags"]
    assert DASHBOARDS[name]["links"][1]["url"] == "${console}"
    assert "console" in {variable["name"] for variable in variables(name)}
    assert links or name in {"node", "queue"}
    for link in links:
        uid, _, query = link.removeprefix("/d/").partition("?")
        known = {variable["name"] for variable in variables(found[uid])}
        given = set(re.findall(r"var-(\w+)=|\$\{(\w+):queryparam\}", query))
        assert {a or b for a, b in given} <= known


@EACH
def test_expressions_use_variables_of_their_dashboard_and_the_cluster(name: str) -> None:
    known = {variable["name"] for variable in variables(name)} | set(TIMES)

    for expression in expressions(name) + selectors(name) + annotations(name):
        assert set(re.findall(r"\$(\w+)", expression)) <= known
        metrics = r"\b(?:skipmq_\w+|ALERTS|up)\b"
        cluster = r"\{(?:job=\"skipmq\", )?cluster=\"\$cluster\""
        selected = re.findall(f"{metrics}({cluster})?", expression)
        assert selected
        assert all(selected) or expression == "label_values(skipmq_build_info, cluster)"


@EACH
def test_metrics_of_queues_are_the_most_of_all_nodes_and_never_a_sum(name: str) -> None:
    for expression in expressions(name):
        merged = r"max by \(account, region, queue\) \((?:(?:rate|increase)\()?skipmq_queue_"
        assert len(re.findall(merged, expression)) == expression.count("skipmq_queue_")


def test_nodes_define_every_metric_that_a_dashboard_names() -> None:
    others = QueueStatistics(*[None] * 20, queues=0, messages=0)  # type: ignore[arg-type]
    shown, _ = exposition.text("", [], (), others)
    defined = set()
    for metric, kind in re.findall(r"^# TYPE (\S+) (\S+)$", shown.decode(), re.MULTILINE):
        ends = ("_bucket", "_count", "_sum") if kind == "histogram" else ("",)
        defined |= {metric + end for end in ends}
    named = {
        metric
        for name in DASHBOARDS
        for expression in expressions(name) + selectors(name) + annotations(name)
        for metric in re.findall(r"\bskipmq_\w+", expression)
    }

    assert len(named) > 50
    assert named <= defined


def has(prometheus: Prometheus, expression: str, labels: frozenset[str] = frozenset()) -> bool:
    """Return whether a variable has a value, or an expression a number with these labels."""
    asked = Template(expression).substitute(VALUES)
    if found := re.fullmatch(r"label_values\((.*), (\w+)\)", asked):
        return bool(prometheus.ask(f"label/{found[2]}/values", **{"match[]": found[1]}))
    series = prometheus.ask("query", query=asked)["result"]
    # `job` is the job of the scrape, and no label of ours.
    return any(
        labels <= set(each["metric"]) - {"job"} and each["value"][1] != "NaN" for each in series
    )


@pytest.fixture
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1, archive="lake") as node:
        yield node.ready()
    embedded_databases.drop(url)


@pytest.fixture
def prometheus(node: NodeProcess, tmp_path: Path) -> Iterator[Prometheus]:
    # A node, and one that is away.
    targets = {"skipmq": (f"127.0.0.1:{node.port}", f"127.0.0.1:{free_port()}")}
    with Prometheus(tmp_path, RULES, targets) as started:
        yield started


class Shop:
    """Sends, receives, deletes, an error and a dead letter, as often as it is asked."""

    def __init__(self, sqs: Any) -> None:
        self._sqs = sqs
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
        policy = {"deadLetterTargetArn": arn["Attributes"]["QueueArn"], "maxReceiveCount": 1}
        attributes = {"RedrivePolicy": json.dumps(policy), "VisibilityTimeout": "0"}
        self._queue = sqs.create_queue(QueueName="orders", Attributes=attributes)["QueueUrl"]

    def open(self) -> None:
        sqs, queue = self._sqs, {"QueueUrl": self._queue}
        sqs.send_message(**queue, MessageBody="deleted")
        (message,) = sqs.receive_message(**queue)["Messages"]
        sqs.delete_message(**queue, ReceiptHandle=message["ReceiptHandle"])
        sqs.send_message(**queue, MessageBody="moved to the dead-letter queue")
        assert sqs.receive_message(**queue)["Messages"]
        assert "Messages" not in sqs.receive_message(**queue)
        with pytest.raises(sqs.exceptions.QueueDoesNotExist):
            sqs.get_queue_url(QueueName="missing")


def test_every_expression_of_every_dashboard_has_data(
    node: NodeProcess, prometheus: Prometheus
) -> None:
    shop = Shop(client(node.url))
    targets = [
        (panel["title"], target["expr"], labels(panel, target))
        for name in DASHBOARDS
        for panel in panels(name)
        for target in panel["targets"]
    ]
    empty = {expression for title, expression, _ in targets if title in EMPTY}
    missing = {(expression, shown) for title, expression, shown in targets if title not in EMPTY}
    missing |= {(variable, frozenset()) for name in DASHBOARDS for variable in selectors(name)}

    def nothing_is_missing() -> bool:
        shop.open()
        missing.difference_update([each for each in missing if has(prometheus, *each)])
        return not missing

    try:
        eventually(nothing_is_missing)
    except AssertionError:
        pytest.fail("no data for\n" + "\n".join(f"{text} {sorted(by)}" for text, by in missing))
    assert {title for title, _, _ in targets} >= set(EMPTY)
    assert not any(has(prometheus, expression) for expression in empty)
