"""The files of the repository, in a clone and in an unpacked sdist."""

import shutil
import subprocess
from pathlib import Path

from pathspec import GitIgnoreSpec

from support.http import ROOT

# What an sdist has beyond the repository.
_ADDED = Path("PKG-INFO")


def tracked() -> list[Path]:
    """Return the files that git has or would take; without git, those that it does not ignore."""
    if (ROOT / ".git").exists():
        listed = subprocess.run(
            ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
            cwd=ROOT,
            capture_output=True,
            text=True,
            check=True,
        ).stdout.splitlines()
        return [path for name in listed if (path := ROOT / name).is_file()]
    ignored = GitIgnoreSpec.from_lines((ROOT / ".gitignore").read_text().splitlines())
    names = (path.relative_to(ROOT) for path in ROOT.rglob("*") if path.is_file())
    return [ROOT / name for name in names if name != _ADDED and not ignored.match_file(name)]


def copy_tracked(folder: Path) -> None:
    """Copy the files of the repository into a folder, which need not exist."""
    for path in tracked():
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, copy)
