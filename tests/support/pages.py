"""Pages of the documentation: their blocks, and the script that runs them as a reader would."""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import takewhile
from pathlib import Path

from markdown_it import MarkdownIt

from support.http import ROOT, free_port

FOLDER = ROOT / "app" / "docs"
# What a reader has instead: the standard port and other ones that are free, and a database of
# their own.
STANDARD = "9324"
PORT = re.compile(r"(\blocalhost:|\b127\.0\.0\.1:|--port[ =])(9\d{3}|4566)\b")
OWN_DATABASE = re.compile(r"(['\"]?)postgresql://(\w+)(:\w+)?@localhost/skipmq\b")
COMMENT = re.compile(r"<!--\s*(not run|file|slow):\s*(.*?)\s*-->", re.DOTALL)
# The first line of a block that is a file: nothing but a comment with its name.
FILE = re.compile(r"^(?:#|//|--|;|<!--)\s*([\w./-]+\.\w+|[\w./-]*file)(?:\s*-->)?\s*$")
SHOWN = {"text"}
# What stands between the commands of a line, and what may stand before one.
BETWEEN = re.compile(r"[|&;()<>\n]+")
BEFORE = re.compile(r"[|&;()\n]+|!|do|if|until|then|sudo|\w+=.*", re.DOTALL)
# Run where a shell goes on while they serve; they print a line when they are ready.
_BACKGROUND = """\
. {file} >{log} 2>&1
until [ -s {log} ] || ! kill -0 $! 2>/dev/null; do sleep 0.1; done
cat {log} >&2
kill -0 $! 2>/dev/null || wait $!
"""


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block, at a line of its page, with the comments right before it."""

    language: str
    text: str
    line: int
    reason: str | None = None
    named: str | None = None

    @property
    def file(self) -> str | None:
        """Return the name of the file that the block is, if it is one."""
        if self.named:
            return self.named
        first = FILE.match(self.text.partition("\n")[0])
        is_file = first and (self.language != "python" or first[1].endswith(".py"))
        return first[1] if is_file and first and self.language not in {"sh", "sql"} else None


@dataclass(frozen=True, slots=True)
class Page:
    """A page by its path from the folder of the documentation."""

    name: str
    blocks: list[Block]
    slow: str | None = None

    @property
    def runs(self) -> list[Block]:
        """Return the blocks that the gate runs."""
        return [b for b in self.blocks if b.reason is None and b.language not in SHOWN]

    def languages(self) -> set[str]:
        return {block.language for block in self.runs}


def files() -> Iterator[Path]:
    """Yield the pages of the site."""
    yield from sorted(FOLDER.rglob("*.md"))


def commands(block: Block) -> Iterator[list[str]]:
    """Yield the words after each `skipmq` of a block of `sh`."""
    text = block.text if block.language == "sh" else ""
    # A comment takes the end of its line.
    text = text.replace("\\\n", " ").replace("\n", "\n\n")
    parts = shlex.shlex(text, posix=True, punctuation_chars="();<>|&\n")
    parts.whitespace = " \t\r"
    parts.whitespace_split = True
    words = list(parts)
    for place, word in enumerate(words):
        if word == "skipmq" and (place == 0 or BEFORE.fullmatch(words[place - 1])):
            found = [*takewhile(lambda each: not BETWEEN.fullmatch(each), words[place + 1 :])]
            if found:
                yield found


@cache
def read(file: Path) -> Page:
    """Return a page with its blocks; directives, whose language stands in braces, are none."""
    name = str(file.relative_to(FOLDER if file.is_relative_to(FOLDER) else ROOT))
    blocks: list[Block] = []
    slow = None
    comments: dict[str, str] = {}
    for token in MarkdownIt("commonmark").parse(file.read_text(encoding="utf-8")):
        if token.type == "html_block":
            comments |= dict(COMMENT.findall(token.content))
            slow = comments.pop("slow", slow)
            continue
        language = token.info.partition(" ")[0]
        if token.type == "fence" and not language.startswith("{"):
            assert token.map
            reason, named = comments.pop("not run", None), comments.pop("file", None)
            blocks.append(Block(language, token.content, token.map[0] + 1, reason, named))
        if comments:
            raise ValueError(f"{name}: no block follows right after {comments}")
    return Page(name, blocks, slow)


def example(page: str, name: str) -> str:
    """Return the text of a block that is a file, of a page by its path from the folder."""
    (found,) = [block.text for block in read(FOLDER / page).blocks if block.file == name]
    return found


def script(page: Page, folder: Path, port: int, database: str) -> str:
    """Write the blocks of a page to a folder; return the text for `sh` that runs them in order.

    One shell runs all of them, so that what a block exports holds in those that follow, as in a
    reader's terminal. `database` is the URL of the owner.
    """
    ports = {STANDARD: port}
    lines = ["set -eu"]
    for number, block in enumerate(page.runs, start=1):
        text = _adapted(block, ports, database)
        file = folder / f"{number}.{block.language}"
        file.write_text(text, encoding="utf-8")
        path = shlex.quote(str(file))
        lines.append(f"printf '\\n>>> %s, line %s\\n' {page.name} {block.line} >&2")
        if block.file:
            lines.append(f"mkdir -p $(dirname {block.file})\ncp {path} {block.file}")
        elif block.language == "sh" and text.rstrip().endswith(" &"):
            lines.append(_BACKGROUND.format(file=path, log=shlex.quote(f"{file}.log")))
        elif block.language == "sh":
            lines.append(f". {path}")
        elif block.language == "python":
            lines.append(f'python -c "$(cat {path})"')
        elif block.language == "sql":
            lines.append(f"skipmq psql -X -v ON_ERROR_STOP=1 -f {path}")
        else:
            raise ValueError(
                f"{page.name}, line {block.line}: `{block.language}` is written to a file when the "
                "first line is a comment with its name; otherwise say <!-- not run: why -->"
            )
    return "\n".join([*lines, "echo '>>> the end' >&2", ""])


def _adapted(block: Block, ports: dict[str, int], database: str) -> str:
    def own(match: re.Match[str]) -> str:
        quote, role, password = match.groups()
        user = "postgres" if role == "owner" else role + (password or "")
        url = database.replace("//postgres@", f"//{user}@")
        return quote + url if quote or block.language != "sh" else shlex.quote(url)

    def free(match: re.Match[str]) -> str:
        if match[2] not in ports:
            ports[match[2]] = free_port()
        return f"{match[1]}{ports[match[2]]}"

    return OWN_DATABASE.sub(own, PORT.sub(free, block.text))
