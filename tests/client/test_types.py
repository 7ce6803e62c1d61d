"""What mypy knows of the client."""

from pathlib import Path

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


def test_type_of_a_queue_is_that_of_what_is_sent_and_handled(tmp_path: Path) -> None:
    marked = set()
    for name, part in (("good", GOOD), ("bad", BAD)):
        (tmp_path / f"{name}.py").write_text(HEAD + part)
        lines = enumerate((HEAD + part).splitlines(), 1)
        marked |= {f"{name}.py:{n}" for n, line in lines if line.endswith("# error")}
    configuration = ["--config-file", str(ROOT / "pyproject.toml"), "--no-error-summary"]
    files = [str(tmp_path / f"{name}.py") for name in ("good", "bad")]

    told, error, _ = api.run([*configuration, "--cache-dir", str(tmp_path / "cache"), *files])

    assert error == ""
    found = [line.partition(": error: ")[0] for line in told.splitlines() if ": error: " in line]
    assert {place.rpartition("/")[2] for place in found} == marked, told
