"""What mypy knows of the client."""

from pathlib import Path

import pytest
from mypy import api

from support.http import ROOT

HEAD = """
from dataclasses import dataclass
from skipmq import App, Context, Queue

@dataclass
class Order:
    n: int

orders = Queue("orders", Order)
app = App()
"""
GOOD = """
orders.send(Order(1), using=None)
Queue("any").send({"n": 1}, using=None)

@app.consumer(orders)
def handle(order: Order, context: Context) -> None:
    with context.transaction() as tx:
        tx.execute("select 1")

@app.consumer(orders, batch=5)
async def index(batch: list[Order]) -> None: ...

handle(Order(1), Context)  # error
"""
BAD = """
orders.send({"n": 1}, using=None)  # error

@app.consumer(orders)  # error
def handle(order: str) -> None: ...

@app.consumer(orders, batch=5)  # error
def index(batch: Order) -> None: ...

@app.consumer(orders)  # error
def three(order: Order, context: Context, more: int) -> None: ...
"""


@pytest.mark.parametrize("part", [GOOD, BAD], ids=["good", "bad"])
def test_type_of_a_queue_is_that_of_what_is_sent_and_handled(tmp_path: Path, part: str) -> None:
    program = (HEAD + part).splitlines()
    marked = {n for n, line in enumerate(program, 1) if line.endswith("# error")}
    file = tmp_path / "program.py"
    file.write_text(HEAD + part)
    configuration = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]

    told, error, _ = api.run([*configuration, "--cache-dir", str(tmp_path), str(file)])

    assert error == ""
    found = [line for line in told.splitlines() if ": error: " in line]
    assert {int(line.split(":")[1]) for line in found} == marked, told
