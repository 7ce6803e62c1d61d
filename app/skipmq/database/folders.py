"""Locate sql/ and migrations/: inside the package in a wheel, at the top of a checkout."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent.parent


def folder(name: str) -> Path:
    """Return the folder `sql` or `migrations`.

    Raises FileNotFoundError when the installation is broken.
    """
    for parent in (_PACKAGE, _PACKAGE.parent.parent):
        if (parent / name).is_dir():
            return parent / name
    raise FileNotFoundError(f"the folder {name} is missing from this installation of SkipMQ")
