"""The guard: every action, member and error of AWS's service model is exercised on both wires.

Which test does which stands in support/conformance_table.py; that each test truly does it, the hook
in conftest.py checks in the test's own run.
"""

import ast
from pathlib import Path

from support import conformance
from support.conformance import Fact

FILES = sorted(Path(__file__).parent.glob("test_conformance_*.py"))


def listed(facts: set[Fact]) -> list[str]:
    return sorted(map(str, facts))


def functions() -> dict[str, set[str]]:
    """Return the test functions of the conformance files, each with its parameters."""
    found = [
        node
        for file in FILES
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]
    assert len({function.name for function in found}) == len(found)
    return {f.name: {argument.arg for argument in f.args.args} for f in found}


def test_every_fact_of_the_model_is_exercised_or_excluded() -> None:
    facts = conformance.modelled()
    known = set(conformance.claims()) | set(conformance.exclusions())

    assert len({fact.action for fact in facts}) == 23
    assert listed(facts - known) == []
    assert listed(known - facts) == []


def test_nothing_is_both_exercised_and_excluded() -> None:
    assert listed(set(conformance.claims()) & set(conformance.exclusions())) == []


def test_every_test_of_the_table_runs_on_both_wires() -> None:
    written = functions()
    named = {test for names in conformance.claims().values() for test in names}

    assert named - set(written) == set()
    # The fixture `sqs` runs a test once for each wire.
    assert {test for test in named if "sqs" not in written[test]} == set()
