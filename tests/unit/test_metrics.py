"""The names by which the code counts are those of the metrics."""

import re
from pathlib import Path

import pytest

from skipmq.telemetry.metrics import COUNTERS, GAUGES, HISTOGRAMS, Metrics

KINDS = {
    "count": COUNTERS.keys(),
    "show": GAUGES.keys(),
    "forget": GAUGES.keys(),
    "observe": HISTOGRAMS.keys(),
}
# What an Availability is of.
THINGS = ("database", "standbys", "tables")
CALL = re.compile(rf"(?:observer|metrics)\.({'|'.join(KINDS)})\(\s*f?\"([^\"]+)\"")


ROOT = Path(__file__).parent.parent.parent
SOURCES = [
    re.sub(r"\{[^}]*what\}", thing, file.read_text())
    for file in (ROOT / "app").rglob("*.py")
    for thing in THINGS
    if file.name != "metrics.py"
]
# What the janitor finds there has the names that the database gives it.
DATABASE = (ROOT / "sql/functions/janitor/database_statistics.sql").read_text()


def test_every_name_in_the_code_is_one_of_a_metric() -> None:
    used = {found for source in SOURCES for found in CALL.findall(source)}

    assert len(used) > len(KINDS)
    assert [(kind, name) for kind, name in used if name not in KINDS[kind]] == []


def test_every_metric_is_named_in_the_code() -> None:
    # The metrics count these themselves.
    own = {"processor", "memory", "workers", "request", "request bytes", "response bytes"}
    names = (COUNTERS | GAUGES | HISTOGRAMS).keys() - own
    named = {name for name in names if any(f'"{name}"' in source for source in SOURCES)}

    assert [name for name in names - named if f"'{name}'" not in DATABASE] == []


@pytest.mark.parametrize("kind", KINDS)
def test_name_that_is_misspelt_raises(kind: str) -> None:
    values = (1.0,) if kind in {"show", "observe"} else ()
    with pytest.raises(KeyError):
        getattr(Metrics(), kind)("database availble", *values)
