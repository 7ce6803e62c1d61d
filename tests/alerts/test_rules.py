"""Promtool on the rules: each alert fires when it should, and no ordinary failover fires any."""

import re
import subprocess
from math import prod
from pathlib import Path

import pytest

from skipmq.broker import runbook
from skipmq.broker.trouble_kinds import KINDS
from support.http import ROOT, environment
from support.programs import need

FOLDER = Path(__file__).parent
PROMETHEUS = ROOT / "deploy" / "prometheus"
RULES = (PROMETHEUS / "skipmq.rules.yml").read_text()
ALERTS = re.findall(r"- alert: (\w+)\n(.*?)(?=\n\n|\Z)", RULES, re.DOTALL)
SECTIONS = {each.slug: each.text for each in runbook.sections()}
FAULTS = {"switchover", "postgres-crash", "server-freeze", "server-death"}


def promtool(*words: str | Path) -> str:
    """Run promtool in the folder of these tests; return what it printed."""
    need("promtool")
    # It keeps little, and would look for garbage for a tenth of its time.
    variables = environment({}) | {"GOGC": "300"}
    done = subprocess.run(
        ["promtool", *words],
        cwd=FOLDER, env=variables, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_rules_and_the_configurations_are_valid() -> None:
    assert f"{len(ALERTS)} rules found" in promtool(
        "check", "rules", PROMETHEUS / "skipmq.rules.yml"
    )
    for file in (PROMETHEUS / "prometheus.yml", PROMETHEUS.parent / "container" / "prometheus.yml"):
        assert "SUCCESS" in promtool("check", "config", file)


def test_each_alert_fires_for_the_cluster_that_is_ill_and_no_other() -> None:
    files = sorted(FOLDER.glob("made*.yml"))
    made = "".join(file.read_text() for file in files)
    fired = set(re.findall(r'ALERTS\{alertname="(\w+)",alertstate="firing",cluster="ill"', made))

    assert fired == {name for name, _ in ALERTS}
    assert len(re.findall(r"alertstate=\"firing\"}', eval_time", made)) == made.count("- name:")
    promtool("test", "rules", *files)


@pytest.mark.parametrize(
    "file",
    sorted([*FOLDER.glob("recorded-*.yml"), *FOLDER.glob("calm*.yml")]),
    ids=lambda file: file.stem,
)
def test_no_alert_fires_on_an_ordinary_failover_or_without_a_fault(file: Path) -> None:
    text = file.read_text()

    assert text.count("count by (alertname) (count_over_time(ALERTS") == text.count("input_series")
    assert "exp_samples" not in text
    promtool("test", "rules", file)


def test_every_fault_of_an_ordinary_failover_was_recorded() -> None:
    assert {file.stem.removeprefix("recorded-") for file in FOLDER.glob("recorded-*.yml")} == FAULTS


@pytest.mark.parametrize(("name", "rule"), ALERTS, ids=[name for name, _ in ALERTS])
def test_alert_has_a_severity_and_its_place_in_the_runbook(name: str, rule: str) -> None:
    address = r'runbook_url: "{{ \$externalLabels.console }}/console/runbook#(\S+)"'
    (section,) = re.findall(address, rule)

    assert re.search(r"severity: (critical|warning|info)\b", rule)
    assert f"`{name}`" in SECTIONS[section]
    assert "$labels.cluster" in rule


def test_runbook_has_no_other_alerts_and_no_entry_without_one() -> None:
    used = {section for _, rule in ALERTS for section in re.findall(r"runbook#([\w-]+)", rule)}
    used |= {kind.section for kind in KINDS.values()}
    entries = {each.slug for each in runbook.sections() if each.level == 3}
    titles = re.findall(r"\*\*(`\w+`(?:, `\w+`)*)\*\*", runbook.text())

    assert {name for title in titles for name in re.findall(r"\w+", title)} <= {*dict(ALERTS)}
    assert used | {*UNANNOUNCED} == entries
    assert not used & {*UNANNOUNCED}


# Entries to which no alert leads.
UNANNOUNCED = {
    "a-redrive-runs-away",
    "messages-were-purged-or-deleted-by-mistake",
    "what-is-easily-misread",
}
# Alerts without a trouble of their kind.
ALONE = {
    "AllNodesDown": "no node is left that could show it",
    "OutcomeUnknown": "what is past: the log has each request",
    "DatabaseFlapping": "what is past: each outage is a trouble while it lasts",
    "SnapshotsEnded": "what is past: the log has the sessions",
    "NoLeader": "nodes see an unreachable database; Patroni has the reason",
    "TwoPrimaries": "nodes see one of them; Patroni has the reason",
    "ServerDown": "nodes see the primary; Patroni has the others",
    "ServerNotStreaming": "nodes see the primary; Patroni has the others",
    "PatroniPaused": "Patroni alone has it",
    "RestartPending": "Patroni alone has it",
    "EtcdWithoutMajority": "nodes do not use etcd",
    "EtcdMemberDown": "nodes do not use etcd",
}
# Troubles whose first alert has words of its own: it sees several queues or workers, or knows no
# singular.
OTHER_WORDS = {"task-failed", "worker-silent", "repeated"}
# Bounds that compare two metrics stand in the condition as a factor.
_NUMBER = r"\d+(?:\.\d+)?(?: \* \d+)*"
REFERENCE = (ROOT / "app/docs/reference/http.md").read_text()
TROUBLES = "".join(
    (ROOT / "sql/functions" / name).read_text()
    for name in (
        "node/queue_troubles.sql",
        "internal/queue_notices.sql",
        "internal/held_back.sql",
    )
)


def test_each_alert_has_a_trouble_or_a_reason_and_the_other_way_round() -> None:
    used = [alert for kind in KINDS.values() for alert in kind.alerts]

    assert len(used) == len(set(used))
    assert {*used} | {*ALONE} == {name for name, _ in ALERTS}
    assert not {*used} & {*ALONE}
    assert [name for name, kind in KINDS.items() if bool(kind.alerts) == bool(kind.no_alert)] == []


@pytest.mark.parametrize("name", KINDS)
def test_trouble_of_the_overview_has_the_words_and_the_place_of_its_alert(name: str) -> None:
    kind = KINDS[name]
    assert kind.section in SECTIONS
    if not kind.alerts:
        return
    rule = dict(ALERTS)[kind.alerts[0]]

    (summary,) = re.findall(r'summary: "(.+)"', rule)
    words = re.sub(
        r" (of|in|to) {{ \$labels.cluster }}", "", summary.removesuffix(": {{ $labels.session }}")
    )
    words = words.replace("{{ $labels.queue }}", "{queue}").replace("many times", "{reason} times")
    words = re.sub(
        r"{{ \$labels.(relation|instance|name|table|session|caller) }}", "{reason}", words
    ).replace("{{ $labels.error }}", "{error}")
    words = words.replace("{{ $value | humanizeDuration }}", "{age}")
    words = words.replace("{{ $value | humanize1024 }}B", "{size}")
    words = re.sub(r"{{ \$value( \| humanize)? }}", "{messages}", words)

    if name in OTHER_WORDS:
        assert words not in kind.summary
    else:
        assert words == kind.summary.removesuffix(": {reason}") or words == kind.summary
    assert f"severity: {kind.severity}" in rule
    assert f"/console/runbook#{kind.section}" in rule


@pytest.mark.parametrize("name", [name for name, kind in KINDS.items() if kind.bound is not None])
def test_trouble_has_the_bound_of_its_alert(name: str) -> None:
    kind = KINDS[name]
    assert kind.bound is not None
    rule = dict(ALERTS)[kind.alerts[0]]

    numbers = [prod(map(float, each.split(" * "))) for each in re.findall(_NUMBER, rule)]
    waits = {float(seconds) for seconds in re.findall(r"for: (\d+)s", rule)}

    assert kind.bound in {*numbers, *waits}


def test_reference_names_every_trouble() -> None:
    (names,) = re.findall(r"each with `Trouble` \((.*?)\)", REFERENCE)

    assert re.findall(r"`([a-z-]+)`", names) == [*KINDS]


def test_troubles_of_queues_are_those_of_the_sql_function() -> None:
    of_queues = {name for name, kind in KINDS.items() if "{queue}" in kind.summary}
    # Nodes count it.
    of_queues -= {"refused"}
    states = set(
        re.findall(r"(?:then|else|select \d,|select|values \(|\), \() ?'([a-z-]+)'", TROUBLES)
    )

    assert states == of_queues
    for name in of_queues:
        bound = KINDS[name].bound
        assert not bound or re.search(rf"\b{bound:.0f}\b", TROUBLES), name
