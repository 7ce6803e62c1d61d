"""Tests that share a node give their queues names of their own."""

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
# Their nodes and databases are a session's, not a test's.
SHARED = ["console", "http"]
CREATE = {"create_queue", "dead_letters"}


def test_queue_of_a_literal_name_is_created_in_one_place() -> None:
    created: defaultdict[str, list[str]] = defaultdict(list)
    for path in (path for folder in SHARED for path in sorted((TESTS / folder).glob("*.py"))):
        for call in (n for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Call)):
            function = getattr(call.func, "attr", getattr(call.func, "id", ""))
            if function not in CREATE:
                continue
            for given in [*call.args, *(k.value for k in call.keywords if k.arg == "QueueName")]:
                if isinstance(given, ast.Constant) and isinstance(given.value, str):
                    created[given.value].append(f"{path.parent.name}/{path.name}:{call.lineno}")

    assert len(created) > 10
    twice = {name: places for name, places in created.items() if len(places) > 1}
    assert twice == {}, "take the fixture `name`, or another literal name in one of them"
