"""The alerts speak of metrics that are there."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.http import ROOT, NodeProcess, client, eventually
from support.postgres import Databases, as_node
from support.programs import need

RULES = (ROOT / "deploy" / "prometheus" / "skipmq.rules.yml").read_text()
SAMPLE = re.compile(r"^(skipmq_\w+)(?:\{(.*)\})? (\S+)$", re.MULTILINE)


@pytest.fixture
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1) as node:
        yield node.ready()
    embedded_databases.drop(url)


def test_nodes_show_every_metric_that_an_alert_asks_for(node: NodeProcess) -> None:
    # What is of queues and of actions is there once there are any; of sessions that hold something
    # up there are only the names until one does.
    client(node.url).create_queue(QueueName="any")
    shown = set(re.findall(r"^(?:# TYPE )?(skipmq_\w+)", node.metrics(), re.MULTILINE))
    asked = set(re.findall(r"\b(skipmq_\w+)", RULES))

    assert asked
    assert asked <= shown


def test_metrics_of_a_node_have_no_remark_and_raise_no_alert(
    node: NodeProcess, tmp_path: Path
) -> None:
    url = client(node.url).create_queue(QueueName="any")["QueueUrl"]
    client(node.url).send_message(QueueUrl=url, MessageBody="a")
    client(node.url).receive_message(QueueUrl=url)
    # The janitor's first round is done.
    eventually(lambda: "\nskipmq_clock_skew_seconds " in node.metrics())
    metrics = node.metrics()
    need("promtool")
    checked = subprocess.run(
        ["promtool", "check", "metrics"],
        input=metrics,
        capture_output=True,
        text=True,
        check=False,
    )
    labels = 'cluster="plain",job="skipmq",instance="node1:9325"'
    series = [
        f"      - {{series: '{name}{{{labels}{own and ',' + own}}}', values: '{value}+0x90'}}"
        for name, own, value in SAMPLE.findall(metrics)
    ]
    lines = [
        f"rule_files: [{ROOT / 'deploy' / 'prometheus' / 'skipmq.rules.yml'}]",
        "tests:",
        "  - interval: 1m",
        "    input_series:",
        *series,
        "    promql_expr_test:",
        "      - expr: count by (alertname) (count_over_time(ALERTS[2h]))",
        "        eval_time: 90m",
    ]
    (tmp_path / "plain.yml").write_text("\n".join(lines))

    tested = subprocess.run(
        ["promtool", "test", "rules", tmp_path / "plain.yml"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")
    assert len(series) > 50
    assert tested.returncode == 0, tested.stdout + tested.stderr
