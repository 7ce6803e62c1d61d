"""The manifests for Kubernetes, as far as they can be tried without any."""

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import kubernetes_validate
import psycopg
import pytest
import yaml

from skipmq import config
from skipmq.database import embedded, rights, schema
from support.http import ROOT
from support.postgres import Databases

FOLDER = ROOT / "deploy" / "kubernetes"
# The image of a node: what follows takes the places of other brokers' images.
DOCKERFILE = (ROOT / "deploy" / "container" / "Dockerfile").read_text().partition("\nFROM node ")[0]
RULES = ROOT / "deploy" / "prometheus" / "skipmq.rules.yml"
PATRONI = ROOT / "deploy" / "patroni" / "patroni.yml"
FILES = sorted(FOLDER.glob("*/*.yaml"))
# The oldest release of Kubernetes that is meant, and the newest that is known.
VERSIONS = ["1.31", kubernetes_validate.latest_version()]


def load(name: str) -> Any:
    return yaml.safe_load((FOLDER / name).read_text())


DEPLOYMENT, JOB = load("nodes/deployment.yaml"), load("migrate/job.yaml")
CLUSTER = load("cloudnativepg/cluster.yaml")["spec"]


def pod(workload: Any) -> Any:
    return workload["spec"]["template"]["spec"]


def container(workload: Any) -> Any:
    (found,) = pod(workload)["containers"]
    return found


def variables(workload: Any) -> dict[str, str]:
    return {each["name"]: each["value"] for each in container(workload)["env"]}


@pytest.fixture(scope="module")
def server(public_folder: Path) -> Iterator[Databases]:
    with embedded.start(public_folder / "kubernetes", ephemeral=True) as found:
        yield Databases(found)


@pytest.mark.parametrize("version", VERSIONS)
def test_manifests_are_what_the_schemas_of_kubernetes_say(version: str) -> None:
    found = [yaml.safe_load(file.read_text()) for file in FILES]
    own = [each for each in found if re.fullmatch(r"(\w+/)?v1|.*\.k8s\.io/v1", each["apiVersion"])]

    for each in own:
        kubernetes_validate.validate(each, version, strict=True)

    kinds = {each["kind"] for each in own}
    assert kinds == {"Deployment", "Job", "NetworkPolicy", "PodDisruptionBudget", "Service"}


@pytest.mark.parametrize("folder", ["nodes", "migrate", "monitoring"])
def test_kustomization_names_every_file_of_its_folder(folder: str) -> None:
    there = {file.name for file in (FOLDER / folder).glob("*.yaml")} - {"kustomization.yaml"}

    assert set(load(f"{folder}/kustomization.yaml")["resources"]) == there


@pytest.mark.parametrize("workload", [DEPLOYMENT, JOB], ids=["nodes", "migrate"])
def test_settings_are_such_that_the_program_takes(workload: Any, tmp_path: Path) -> None:
    image = dict(re.findall(r"(SKIPMQ_\w+)=(\S+)", DOCKERFILE))
    (volume,) = [each for each in pod(workload)["volumes"] if "secret" in each]
    (mount,) = [
        each for each in container(workload)["volumeMounts"] if each["name"] == volume["name"]
    ]
    (tmp_path / "database-url").write_text("postgresql://skipmq_node:secret@postgres/skipmq")
    (tmp_path / "master-key").write_text("A" * 43 + "=")
    given = {
        name: value.replace(mount["mountPath"], str(tmp_path))
        for name, value in variables(workload).items()
    }

    settings = config.load({**image, **given}).settings

    assert settings.database_url.startswith("postgresql://")
    assert settings.checks_signatures
    # Kubernetes would add variables of the Service, which are no settings.
    assert pod(workload)["enableServiceLinks"] is False


def test_pods_run_as_the_account_of_the_image_and_change_nothing() -> None:
    (account,) = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)

    for workload in (DEPLOYMENT, JOB):
        context = pod(workload)["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == account
        assert context["runAsNonRoot"]
        assert container(workload)["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        }


def test_ports_are_those_of_the_image_and_everything_names_them() -> None:
    (exposed,) = re.findall(r"^EXPOSE (.*)$", DOCKERFILE, re.MULTILINE)
    node = container(DEPLOYMENT)
    ports = {each["name"]: each["containerPort"] for each in node["ports"]}
    (service,) = load("nodes/service.yaml")["spec"]["ports"]
    policy = load("nodes/network.yaml")["spec"]["ingress"]
    (scraped,) = load("monitoring/pod_monitor.yaml")["spec"]["podMetricsEndpoints"]

    assert [str(port) for port in ports.values()] == exposed.split()
    assert f"SKIPMQ_METRICS_PORT={ports['metrics']}" in DOCKERFILE
    assert service["targetPort"] == "sqs"
    assert {each["port"] for rule in policy for each in rule["ports"]} == set(ports)
    assert scraped["port"] == "metrics"
    asked = {
        probe: node[probe]["httpGet"]
        for probe in ("startupProbe", "readinessProbe", "livenessProbe")
    }
    assert {each["port"] for each in asked.values()} == {"metrics"}
    assert asked["readinessProbe"]["path"] == "/health/ready"
    assert asked["livenessProbe"]["path"] == asked["startupProbe"]["path"] == "/health/live"


def test_everything_selects_the_pods_of_the_deployment() -> None:
    labels = DEPLOYMENT["spec"]["template"]["metadata"]["labels"]
    selected = [
        DEPLOYMENT["spec"]["selector"]["matchLabels"],
        load("nodes/service.yaml")["spec"]["selector"],
        load("nodes/disruption.yaml")["spec"]["selector"]["matchLabels"],
        load("nodes/network.yaml")["spec"]["podSelector"]["matchLabels"],
        load("monitoring/pod_monitor.yaml")["spec"]["selector"]["matchLabels"],
        *(
            each["labelSelector"]["matchLabels"]
            for each in pod(DEPLOYMENT)["topologySpreadConstraints"]
        ),
    ]

    assert selected == [labels] * 7


def test_node_that_stops_has_the_time_that_it_takes() -> None:
    given = variables(DEPLOYMENT)
    takes = int(given["SKIPMQ_STOP_DELAY"]) + int(given["SKIPMQ_STOP_TIMEOUT"])
    ready = container(DEPLOYMENT)["readinessProbe"]

    assert pod(DEPLOYMENT)["terminationGracePeriodSeconds"] >= takes + 10
    assert int(given["SKIPMQ_STOP_DELAY"]) > ready["periodSeconds"] * ready["failureThreshold"]


def test_rules_for_the_operator_are_those_for_prometheus() -> None:
    made = subprocess.run(
        [FOLDER / "monitoring" / "prometheus_rule"], capture_output=True, check=True
    ).stdout

    assert yaml.safe_load(made)["spec"] == yaml.safe_load(RULES.read_text())


def test_replication_is_that_of_the_cluster_under_patroni() -> None:
    patroni = yaml.safe_load(PATRONI.read_text())["bootstrap"]["dcs"]
    parameters = patroni["postgresql"]["parameters"]
    synchronous = CLUSTER["postgresql"]["synchronous"]

    assert synchronous["number"] == patroni["synchronous_node_count"]
    assert patroni["synchronous_mode_strict"] == (synchronous["dataDurability"] == "required")
    assert synchronous["maxStandbyNamesFromCluster"] == CLUSTER["instances"] - 1
    given = CLUSTER["postgresql"]["parameters"]
    assert {name: str(parameters[name]) for name in given if name in parameters} == {
        name: value for name, value in given.items() if name in parameters
    }
    assert len(given.keys() & parameters.keys()) >= 10


def test_roles_of_the_cluster_are_all_that_the_schema_needs(server: Databases) -> None:
    url = server.url("skipmq")
    with psycopg.connect(server.server.url, autocommit=True) as superuser:
        superuser.execute("create role skipmq login")
        superuser.execute("create database skipmq owner skipmq")
    with psycopg.connect(url, autocommit=True) as superuser:
        for statement in CLUSTER["bootstrap"]["initdb"]["postInitApplicationSQL"]:
            superuser.execute(statement.encode())

    owner = url.replace("postgresql://postgres@", "postgresql://skipmq@")
    schema.migrate(owner)

    assert rights.missing(owner) == []
    logins = {each["name"] for each in CLUSTER["managed"]["roles"]}
    assert logins == {"skipmq_node", "skipmq_reader"}
