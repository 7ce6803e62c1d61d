"""Write the packages of nodes and images: the tested versions, with the hashes of their files.

python deploy/write_locks.py    # writes deploy/locks; needs uv, so `make constraints` runs it
"""

import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "deploy" / "locks"
HEADER = (
    "# Written by `make constraints`: the versions of deploy/constraints.txt, with their hashes.\n"
)


def locked() -> dict[str, list[str]]:
    """Return the requirements of each lock."""
    about = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    project = about["project"]
    extras = project["optional-dependencies"]
    return {
        "build": about["build-system"]["requires"],
        "server": project["dependencies"] + extras["server"],
        # The only other extra for nodes.
        "opentelemetry": extras["opentelemetry"],
    }


def lock(requirements: list[str]) -> str:
    """Resolve requirements for every platform; return the lines for pip."""
    # Not pip-compile, which also hashes local files when pip is configured to use them.
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--universal",
               "--python-version", "3.11", "--generate-hashes", "--no-annotate", "--no-header",
               "--constraints", str(ROOT / "deploy" / "constraints.txt"), "-"]  # fmt: skip
    text = "\n".join(requirements)
    return subprocess.run(command, input=text, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name, requirements in locked().items():
        (FOLDER / f"{name}.txt").write_text(HEADER + lock(requirements), encoding="utf-8")
