"""The files for containers, as far as they can be tried without any."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import psycopg
import pytest

from skipmq.config.settings import Settings
from skipmq.database import embedded
from support.http import ROOT, NodeProcess, eventually, free_port
from support.postgres import DEBIAN, Databases, as_node, debian_servers
from support.programs import not_here

FOLDER = ROOT / "deploy" / "container"
DOCKERFILE = (FOLDER / "Dockerfile").read_text()
COMPOSE = (FOLDER / "compose.yml").read_text()


@pytest.fixture
def node(embedded_databases: Databases) -> Iterator[NodeProcess]:
    url = embedded_databases.migrated()
    with NodeProcess(database_url=as_node(url), workers=1, metrics_port=free_port()) as node:
        yield node.ready()
    embedded_databases.drop(url)


def healthy(port: int) -> bool:
    """Run the HEALTHCHECK of the image on a port of this machine."""
    (command,) = re.findall(r"^HEALTHCHECK .* CMD (\[.*\])$", DOCKERFILE, re.MULTILINE)
    program, *words = json.loads(command)
    assert program == "python"
    done = subprocess.run(
        [sys.executable, *words],
        env={"SKIPMQ_METRICS_PORT": str(port)},
        capture_output=True,
        check=False,
    )
    return done.returncode == 0


def test_health_check_of_the_image_sees_a_node_and_its_absence(node: NodeProcess) -> None:
    # It waits for two seconds, and is asked again and again.
    eventually(lambda: healthy(int(node.probes_url.rsplit(":", 1)[1])))
    assert not healthy(free_port())


def test_image_copies_what_the_wheel_is_built_from_and_runs_without_root() -> None:
    copied = " ".join(re.findall(r"^COPY (?!--from)(.*) \S+$", DOCKERFILE, re.MULTILINE)).split()
    allowed = re.findall(r"^!(.*)$", (FOLDER / "Dockerfile.dockerignore").read_text(), re.MULTILINE)

    assert set(copied) == set(allowed)
    assert all((ROOT / name).exists() for name in copied)
    assert {"app", "sql", "migrations", "deploy/skipmq.cdx.json"} <= set(copied)
    assert re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE) == ["10001:10001"]


def test_settings_that_the_files_name_exist() -> None:
    known = {f"SKIPMQ_{field.name.upper()}" for field in fields(Settings)}
    named = set(re.findall(r"\bSKIPMQ_[A-Z_]+", DOCKERFILE + COMPOSE))

    assert named
    assert named <= known


def test_example_environment_has_just_what_compose_asks_for() -> None:
    example = (FOLDER / "env.example").read_text()

    assert set(re.findall(r"^([A-Z_]+)=", example, re.MULTILINE)) == set(
        re.findall(r"\$\{([A-Z_]+)", COMPOSE)
    )


def test_files_that_compose_mounts_are_there() -> None:
    mounted = re.findall(r"^ +- (\.[^:]+):", COMPOSE, re.MULTILINE)

    assert len(mounted) >= 5
    assert all((FOLDER / name).exists() for name in mounted)


def test_roles_are_made_by_the_script_of_the_first_start(public_folder: Path) -> None:
    if not debian_servers():
        not_here("no psql here: `make packages` installs or names what is missing")
    programs = DEBIAN / debian_servers()[-1] / "bin"
    script = (FOLDER / "make_roles.sh").read_text()
    bootstrap = ROOT / "deploy" / "patroni" / "post_bootstrap"
    with embedded.start(public_folder / "container", ephemeral=True, bin_dir=programs) as server:
        host = psycopg.conninfo.conninfo_to_dict(server.url)["host"]
        passwords = {f"{who}_PASSWORD": "secret" for who in ("OWNER", "NODE", "READER")}
        subprocess.run(
            ["sh", "-c", script.replace("/usr/local/bin/post_bootstrap", str(bootstrap))],
            env={"PATH": f"{programs}:/usr/bin:/bin", "PGHOST": str(host), **passwords},
            check=True,
            capture_output=True,
        )

        owner = server.url.replace("//postgres@/postgres", "//skipmq@/skipmq")
        with psycopg.connect(owner) as connection:
            row = connection.execute("select pg_has_role('skipmq_reader', 'usage')").fetchone()
    assert row == (True,)
