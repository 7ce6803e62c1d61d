"""Build, check, try out and sign what is published. CONTRIBUTING.md says when.

python deploy/release.py    # writes dist/, publishes nothing; `make release` installs twine first
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Sequence
from pathlib import Path

import bill_of_materials

ROOT = Path(__file__).resolve().parent.parent
FROZEN = "migrations/versions/0001_pre_first.sql"
SUMS = "SHA256SUMS"
TWINE = ".cache/release/bin/twine"
# The limits of the client with all that it needs: bytes, with what Python compiles, and
# microseconds of its import. Of the bytes 14 million are those of other packages; the wheel's own,
# unpacked, are what the gate holds.
MOST_BYTES, MOST_MICROSECONDS = 24_000_000, 60_000
MOST_IN_WHEEL = 5_000_000
ROUND_TRIP = """
from skipmq.testing import Server

with Server() as server:
    sqs = server.client()
    url = sqs.create_queue(QueueName="orders")["QueueUrl"]
    sqs.send_message(QueueUrl=url, MessageBody="tea")
    (message,) = sqs.receive_message(QueueUrl=url)["Messages"]
    sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    assert message["Body"] == "tea"
    assert server.messages("orders") == []
"""
# What is left to do by hand; `tag` is the version.
NEXT = """
Next, by hand:
  git tag --annotate {tag} --message "SkipMQ {tag}"
  git push origin {tag}
  {twine} upload {files}
  Attach these files, {others} to the release of the tag, whose text is {notes}.
  Build and push the image, of the sources in the sdist, on its base by digest:
    tar xf dist/skipmq-{tag}.tar.gz -C dist && cd dist/skipmq-{tag}
    docker pull {base}    # prints Digest: sha256:…
    docker build -f deploy/container/Dockerfile --build-arg BASE={base}@sha256:… -t skipmq:{tag} .
  Begin the next ## [Unreleased] in CHANGELOG.md.
"""


class ReleaseError(Exception):
    """What is here cannot be released; the message has a line for each reason."""


def version(root: Path) -> str:
    """Return the version of a tree."""
    text = (root / "app" / "skipmq" / "release.py").read_text(encoding="utf-8")
    found = re.search(r'^VERSION = "(.+)"$', text, re.MULTILINE)
    if found is None:
        raise ReleaseError("app/skipmq/release.py has no VERSION")
    return found[1]


def obstacles(root: Path) -> list[str]:
    """Return why a tree cannot be released, a sentence with the remedy for each reason."""
    tag = version(root)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    found = []
    if changed := _run("git", "status", "--porcelain", cwd=root).splitlines():
        files = f"{len(changed)} file{'s' if changed[1:] else ''}"
        found.append(f"the tree is dirty ({files}): commit or remove what `git status` lists")
    if not re.search(rf"^## \[{re.escape(tag)}\] - \d{{4}}-\d\d-\d\d$", changes, re.MULTILINE):
        entry = f"## [{tag}] - YYYY-MM-DD"
        found.append(f"CHANGELOG.md has no entry of {tag}: head what is unreleased by {entry}")
    if _run("git", "tag", "--list", tag, cwd=root):
        found.append(f"the tag {tag} exists: raise VERSION in app/skipmq/release.py")
    if not (root / FROZEN).exists():
        found.append("the first migration is not written down: make freeze, and commit its file")
    return found


def build(root: Path, dist: Path) -> list[Path]:
    """Build the sdist of a tree and, from it alone, the wheel; return their paths."""
    about = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    stem = f"{about['name']}-{version(root)}"
    for old in dist.glob(f"{stem}*"):
        old.unlink()
    sdist, wheel = dist / f"{stem}.tar.gz", dist / f"{stem}-py3-none-any.whl"
    _run(sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", dist, cwd=root)
    with tempfile.TemporaryDirectory() as folder:
        shutil.unpack_archive(sdist, folder)
        inside = Path(folder) / stem
        _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", dist, cwd=inside)
    return [sdist, wheel]


def notes(root: Path, dist: Path) -> Path:
    """Write what CHANGELOG.md has of the version, the text of its release; return the path."""
    tag = version(root)
    changes = (root / "CHANGELOG.md").read_text(encoding="utf-8")
    entry = re.search(rf"^## \[{re.escape(tag)}\].*\n([^\0]*?)(?=^## \[|\Z)", changes, re.MULTILINE)
    if entry is None or not entry[1].strip():
        raise ReleaseError(f"the entry of {tag} in CHANGELOG.md is empty: say what is new")
    file = dist / f"skipmq-{tag}.md"
    file.write_text(f"# SkipMQ {tag}\n\n{entry[1].strip()}\n", encoding="utf-8")
    return file


def base(root: Path) -> str:
    """Return the image that the image of a node is built on."""
    text = (root / "deploy" / "container" / "Dockerfile").read_text(encoding="utf-8")
    (image,) = re.findall(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    return str(image)


def try_out(wheel: Path, constraints: Path) -> str:
    """Install a wheel in a fresh environment and use it; return what the client takes.

    First the client alone, which names the extra that a command lacks, then a server and boto3.
    """
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "venv"
        venv.create(place, with_pip=True)
        python, before = place / "bin" / "python", _size(place)
        pip = (python, "-m", "pip", "--disable-pip-version-check", "install", "-q")
        _run(*pip, "-c", constraints, wheel, cwd=place)
        taken = _size(place) - before
        imported = min(_microseconds(python, place) for _ in range(5))
        if taken > MOST_BYTES or imported > MOST_MICROSECONDS:
            raise ReleaseError(
                f"the client takes {taken} bytes and {imported} microseconds to import;"
                f" {MOST_BYTES} and {MOST_MICROSECONDS} are its limits"
            )
        said = subprocess.run(
            [place / "bin" / "skipmq", "serve"],
            cwd=place, capture_output=True, text=True, check=False,
        ).stderr  # fmt: skip
        if "pip install 'skipmq[server]'" not in said:
            raise ReleaseError(f"the client's command does not name the extra that lacks: {said}")
        _run(*pip, "-c", constraints, f"{wheel}[testing]", cwd=place)
        _run(python, "-c", ROUND_TRIP, cwd=place)
    return f"the client takes {taken / 1e6:.1f} MB, its import {imported / 1000:.1f} ms"


def describe(files: Sequence[Path], dist: Path, tag: str) -> list[Path]:
    """Write the bill of materials of these files and the sums of all; return the two paths."""
    document = bill_of_materials.bill()
    document["metadata"]["component"] |= {"version": tag, "bom-ref": f"pkg:pypi/skipmq@{tag}"}
    document["metadata"]["component"]["components"] = [
        {"type": "file", "name": each.name, "hashes": [{"alg": "SHA-256", "content": _sum(each)}]}
        for each in files
    ]
    bill = dist / f"skipmq-{tag}.cdx.json"
    bill.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    sums = dist / SUMS
    lines = [f"{_sum(each)}  {each.name}\n" for each in (*files, bill)]
    sums.write_text("".join(lines), encoding="utf-8")
    return [bill, sums]


def sign(sums: Path) -> str:
    """Sign the sums by the first program that can; return a sentence about it."""
    for suffix in (".asc", ".minisig", ".sigstore.json"):
        sums.with_name(sums.name + suffix).unlink(missing_ok=True)
    signers: tuple[tuple[str, bool, list[str]], ...] = (
        ("gpg", _has_gpg_key(), ["--batch", "--yes", "--armor", "--detach-sign"]),
        ("minisign", (Path.home() / ".minisign/minisign.key").exists(), ["-S", "-m"]),
        # They ask who signs in a browser, or take the identity of a CI job.
        ("cosign", True, ["sign-blob", "--yes", "--bundle", f"{sums}.sigstore.json"]),
        ("sigstore", True, ["sign", "--bundle", f"{sums}.sigstore.json"]),
    )
    for program, has_key, words in signers:
        if has_key and shutil.which(program):
            # It may ask for a passphrase.
            subprocess.run([program, *words, str(sums)], check=True)
            return f"signed by {program}: {SUMS}"
    names = "gpg or minisign with a secret key, cosign, sigstore"
    return f"NOT SIGNED: nothing here can sign {SUMS}. Any of these would: {names}"


def _has_gpg_key() -> bool:
    return bool(shutil.which("gpg") and _run("gpg", "--batch", "--list-secret-keys", cwd=ROOT))


def _microseconds(python: Path, cwd: Path) -> int:
    done = subprocess.run(
        [python, "-X", "importtime", "-c", "import skipmq"],
        cwd=cwd, capture_output=True, text=True, check=True,
    )  # fmt: skip
    (line,) = re.findall(r"^import time:\s*\d+ \|\s*(\d+) \| skipmq$", done.stderr, re.MULTILINE)
    return int(line)


def _size(folder: Path) -> int:
    """Return the bytes of a folder's files; a disk takes more, in whole blocks."""
    return sum(each.lstat().st_size for each in folder.rglob("*") if each.is_file())


def _sum(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _run(*words: str | Path, cwd: Path) -> str:
    done = subprocess.run(words, cwd=cwd, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"{' '.join(map(str, words))}\n{done.stdout}{done.stderr}")
    return done.stdout


def release(root: Path) -> None:
    """Make the release of a tree, and print what is left to do; raise ReleaseError."""
    if found := obstacles(root):
        raise ReleaseError("\n".join(found))
    tag, dist, constraints = version(root), root / "dist", root / "deploy" / "constraints.txt"
    say = sys.stdout.write
    files = build(root, dist)
    say(f"built {', '.join(each.name for each in files)}, the wheel from the sdist\n")
    _run(root / TWINE, "check", "--strict", *files, cwd=root)
    say(f"tried out in a fresh environment: {try_out(files[1], constraints)}\n")
    others = describe(files, dist, tag)
    text = notes(root, dist)
    say(f"wrote {', '.join(each.name for each in (*others, text))}\n{sign(others[1])}\n")
    names = [str(each.relative_to(root)) for each in (*files, *dist.glob(f"{SUMS}*"))]
    upload, rest = " ".join(names[:2]), ", ".join([str(others[0].relative_to(root)), *names[2:]])
    about = {"notes": text.relative_to(root), "base": base(root), "twine": TWINE}
    say(NEXT.format(tag=tag, files=upload, others=rest, **about))


def main() -> int:
    """Make the release of this tree; return the exit code."""
    try:
        release(ROOT)
    except ReleaseError as error:
        sys.stderr.write(f"not released:\n{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
