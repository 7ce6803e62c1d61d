"""The alerts speak of metrics that are there."""

import re
from collections.abc import Iterator

import pytest

from support.http import ROOT, NodeProcess, client
from support.postgres import Databases, as_node

RULES = (ROOT / "deploy" / "prometheus" / "skipmq.rules.yml").read_text()
RUNBOOK = (ROOT / "app" / "docs" / "operate" / "runbook.md").read_text()


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


def test_runbook_tells_of_every_alert() -> None:
    alerts = set(re.findall(r"- alert: (\w+)", RULES))

    assert alerts
    assert {name for name in alerts if f"`{name}`" not in RUNBOOK} == set()
