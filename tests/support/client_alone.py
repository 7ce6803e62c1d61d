"""An environment of Python in which only SkipMQ's client is installed."""

import venv
from importlib import metadata
from pathlib import Path

from bill_of_materials import runtime


def client_alone(folder: Path, *more: str) -> Path:
    """Make a virtual environment of the client, its requirements and `more`; return its Python.

    `more` are names of packages, whose requirements are there too. All are links to what is
    installed here, so that nothing is downloaded.
    """
    venv.create(folder, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    for name in set(runtime(["skipmq", *more])):
        for file in metadata.files(name) or []:
            top = file.parts[0]
            place = packages / top
            # Programs lie outside of this folder.
            if top not in {"..", "__pycache__"} and not place.is_symlink():
                place.symlink_to(str(metadata.distribution(name).locate_file(top)))
    return folder / "bin" / "python"
