"""The blocks of the client's README, run as they stand there."""

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

from skipmq import App
from support.applications import applications_of
from support.http import ROOT, environment
from support.postgres import Connection

README = (ROOT / "app" / "skipmq" / "client" / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
URL = "postgresql://shop@localhost/skipmq"


def run(words: list[str], folder: Path, variables: dict[str, str]) -> str:
    done = subprocess.run(
        words, cwd=folder, env=variables, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, f"{words[-1]}\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_blocks_create_send_and_consume(database: str, owner: Connection, tmp_path: Path) -> None:
    variables = environment({"database_url": database})
    variables["PATH"] = f"{Path(sys.executable).parent}{os.pathsep}{variables['PATH']}"
    said = ""
    with applications_of(database) as applications:
        applications.adopt("shop")
        for language, block in BLOCKS:
            text = block.replace(URL, applications.url("shop"))
            if text.startswith("# shop.py"):
                (tmp_path / "shop.py").write_text(text)
            elif language == "sh":
                said += run(["sh", "-euc", text], tmp_path, variables)
            else:
                said += run([sys.executable, "-c", text], tmp_path, variables)

        items = {item for (item,) in owner.execute("select item from sold")}
        assert items == {"a place in the queue", "tea", "milk"}
    assert "stopped (1 dead-lettered, 2 done)" in said
    assert [language for language, _ in BLOCKS] == ["sh", "python", "python", "sh", "python"]


def test_options_are_documented() -> None:
    options = inspect.signature(App.consumer).parameters.keys() - {"self", "queue"}

    assert {name for name in options if f"`{name}=" not in README} == set()
