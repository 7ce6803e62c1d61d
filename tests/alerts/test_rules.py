"""Promtool on the rules: each alert fires when it should, and no ordinary failover fires any."""

import re
import subprocess
from pathlib import Path

import pytest

from skipmq.actions.skipmq.troubles import KINDS
from support.http import ROOT
from support.programs import need

FOLDER = Path(__file__).parent
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = (PROMETHEUS / "skipmq.rules.yml").read_text()
ALERTS = re.findall(r"- alert: (\w+)\n(.*?)(?=\n\n|\Z)", RULES, re.DOTALL)
FAULTS = {"switchover", "postgres-crash", "server-freeze", "server-death"}


def promtool(*words: str | Path) -> str:
    """Run promtool in the folder of these tests; return what it printed."""
    need("promtool")
    done = subprocess.run(
        ["promtool", *words], cwd=FOLDER, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules_and_the_configurations_are_valid() -> None:
    assert f"{len(ALERTS)} rules found" in promtool(
        "check", "rules", PROMETHEUS / "skipmq.rules.yml"
    )
    for file in (PROMETHEUS / "prometheus.yml", PROMETHEUS.parent / "container" / "prometheus.yml"):
        assert "SUCCESS" in promtool("check", "config", file)


def test_each_alert_fires_for_the_cluster_that_is_ill_and_no_other() -> None:
    made = (FOLDER / "made.yml").read_text()
    fired = set(re.findall(r'ALERTS\{alertname="(\w+)",alertstate="firing",cluster="ill"', made))

    assert fired == {name for name, _ in ALERTS}
    assert len(re.findall(r"alertstate=\"firing\"}', eval_time", made)) == made.count("- name:")
    promtool("test", "rules", "made.yml")


@pytest.mark.parametrize(
    "file",
    [*sorted(FOLDER.glob("recorded-*.yml")), FOLDER / "calm.yml"],
    ids=lambda file: file.stem,
)
def test_no_alert_fires_on_an_ordinary_failover_or_without_a_fault(file: Path) -> None:
    text = file.read_text()

    assert text.count("count by (alertname) (count_over_time(ALERTS") == text.count("input_series")
    assert "exp_samples" not in text
    promtool("test", "rules", file)


def test_every_fault_of_an_ordinary_failover_was_recorded() -> None:
    assert {file.stem.removeprefix("recorded-") for file in FOLDER.glob("recorded-*.yml")} == FAULTS


@pytest.mark.parametrize("rule", [rule for _, rule in ALERTS], ids=[name for name, _ in ALERTS])
def test_alert_has_a_severity_and_its_place_in_the_runbook(rule: str) -> None:
    page, anchor = re.findall(r"runbook_url: (app/docs/operate/[a-z]+\.md)#(\S+)", rule)[0]
    prose = re.sub(r"```.*?```", "", (ROOT / page).read_text(), flags=re.DOTALL)
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}

    assert re.search(r"severity: (critical|warning|info)\b", rule)
    assert anchor in anchors
    assert "$labels.cluster" in rule


@pytest.mark.parametrize("name", KINDS)
def test_trouble_of_the_overview_has_the_words_and_the_place_of_its_alert(name: str) -> None:
    kind = KINDS[name]
    runbook = (ROOT / "app/docs/operate/runbook.md").read_text()
    titles = re.findall(r"^### (.+)$", runbook, re.MULTILINE)
    assert kind.section in {title.lower().replace(" ", "-") for title in titles}
    if kind.alert is None:
        return
    rule = dict(ALERTS)[kind.alert]

    (summary,) = re.findall(r'summary: "(.+)"', rule)
    words = re.sub(
        r" (of|to) {{ \$labels.cluster }}", "", summary.removesuffix(": {{ $labels.session }}")
    )
    words = words.replace("{{ $labels.queue }}", "{queue}")
    words = words.replace("{{ $labels.caller }}", "{reason}").replace(
        "{{ $labels.error }}", "{error}"
    )
    words = words.replace("{{ $labels.relation }}", "{reason}").replace(
        "{{ $value }}", "{messages}"
    )
    words = re.sub(r"{{ \$value \| humanizeDuration }}", "{age}", words)
    words = re.sub(r"{{ \$value \| humanize }}", "{messages}", words)

    assert words == kind.summary
    assert f"severity: {kind.severity}" in rule
    assert f"runbook.md#{kind.section}" in rule
