"""The client where nothing but the client is installed."""

import subprocess
from importlib import metadata
from pathlib import Path

import psycopg

from bill_of_materials import runtime
from support.client_alone import client_alone
from support.http import ROOT, environment

SHOP = """
from skipmq import App, Queue

orders = Queue("orders", dict)
shop = App({url!r})

@shop.consumer(orders)
def ship(order: dict):
    print("shipped", order["item"])
"""
MOST_BYTES = 20_000_000


def work(folder: Path, url: str) -> subprocess.CompletedProcess[str]:
    (folder / "shop.py").write_text(SHOP.format(url=url))
    return subprocess.run(
        [client_alone(folder / "alone"), "-m", "skipmq", "work", "shop:shop", "--once"],
        cwd=folder,
        env=environment({}),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_client_sends_and_works(shop: str, tmp_path: Path) -> None:
    with psycopg.connect(shop, autocommit=True) as connection:
        connection.execute("""select skipmq.send_message('orders', '{"item": "tea"}')""")

    done = work(tmp_path, shop)

    assert (done.returncode, done.stdout) == (0, "shipped tea\n"), done.stderr
    assert "skipmq: stopped (1 done)" in done.stderr


def test_error_of_the_client_takes_one_line(tmp_path: Path) -> None:
    done = work(tmp_path, "postgresql://127.0.0.1:1/shop")

    assert done.returncode == 1
    assert done.stderr.splitlines()[1].startswith("skipmq: the database cannot be reached")
    assert len(done.stderr.splitlines()) == 2


def test_django_app_without_django_names_its_extra(tmp_path: Path) -> None:
    done = subprocess.run(
        [client_alone(tmp_path / "alone"), "-c", "import skipmq.django"],
        env=environment({}),
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.stderr.endswith("skipmq.django needs Django: pip install 'skipmq[django]'\n")


def test_client_and_all_that_it_needs_take_less_than_20_megabytes() -> None:
    def size(folder: Path) -> int:
        files = (file for file in folder.rglob("*.*") if file.parent.name != "__pycache__")
        return sum(file.stat().st_size for file in files if file.is_file())

    needed = {
        name: sum(Path(str(file.locate())).stat().st_size for file in metadata.files(name) or [])
        for name in set(runtime(["skipmq"])) - {"skipmq"}
    }
    ours = sum(size(ROOT / each) for each in ("app/skipmq", "sql", "migrations"))

    assert {"psycopg", "psycopg-binary", "msgspec", "click"} <= set(needed)
    assert sum(needed.values()) + ours < MOST_BYTES
