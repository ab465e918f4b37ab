"""What runs several collectors, as far as it can be read: no container and no engine is started."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import yaml

from collector.setting_values import place_of
from collector.settings import Settings

EXAMPLES = Path(__file__).parents[1] / "examples" / "cluster"
KNOWN = {f"MISSTEP_{each.name.upper()}" for each in fields(Settings)}
COMPOSE: dict[str, Any] = yaml.safe_load((EXAMPLES / "docker-compose.yml").read_text())
KUBERNETES = {each["kind"]: each for each in yaml.safe_load_all((EXAMPLES / "kubernetes.yaml").read_text())}
BALANCER = (EXAMPLES / "haproxy.cfg").read_text()


def test_images_of_others_are_pinned() -> None:
    images = {service["image"] for service in COMPOSE["services"].values()} - {"misstep"}
    assert len(images) == 2
    assert all(re.search(r":-[\w./-]+:[\w.-]+@sha256:[0-9a-f]{64}\}$", image) for image in images), images


def test_containers_share_a_cluster_and_a_key_and_keep_stores_of_their_own() -> None:
    services = COMPOSE["services"]
    collectors = [services["collector-1"], services["collector-2"]]
    for service in (*collectors, services["init"], services["dashboard"]):
        assert set(service["environment"]) <= KNOWN
        assert (service["read_only"], service["cap_drop"], service["user"]) == (True, ["ALL"], "10001")
    cluster, key = (collectors[0]["environment"][f"MISSTEP_{name}"] for name in ("CLUSTER", "HASH_KEY"))
    assert all(each["environment"]["MISSTEP_CLUSTER"] == cluster for each in collectors)
    place = place_of(re.sub(r"\$\{\w+:\?[^}]*\}", "x", cluster))
    assert (place.address, place.database) == (
        "http://clickhouse:8123",
        services["clickhouse"]["environment"]["CLICKHOUSE_DB"],
    )
    assert key.startswith("${MISSTEP_HASH_KEY:?")  # no default: one that everybody knows would be none
    volumes = [volume.partition(":")[0] for each in collectors for volume in each["volumes"]]
    assert len(set(volumes)) == 2
    assert {*volumes, "clickhouse"} == set(COMPOSE["volumes"])
    ports = [port for service in services.values() for port in service.get("ports", ())]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert services["init"]["command"] == ["misstep", "cluster", "init"]


def test_the_balancer_keeps_each_client_with_one_collector_that_is_ready() -> None:
    backends = re.findall(r"^backend (\w+)\n(.*?)(?=^\S|\Z)", BALANCER, re.MULTILINE | re.DOTALL)
    assert [name for name, _ in backends] == ["http", "grpc"]
    for name, text in backends:
        assert "balance source" in text
        assert "httpchk GET /readyz" in text
        port = {"http": 4318, "grpc": 4317}[name]
        assert re.findall(r"server (\S+) (\S+):(\d+)", text) == [
            (f"collector-{number}", f"collector-{number}", str(port)) for number in (1, 2)
        ]
        assert f"default_backend {name}" in BALANCER


def test_pods_keep_their_volume_their_clients_and_each_other() -> None:
    pods, service, budget = (KUBERNETES[kind] for kind in ("StatefulSet", "Service", "PodDisruptionBudget"))
    labels = pods["spec"]["template"]["metadata"]["labels"]
    assert pods["spec"]["selector"]["matchLabels"] == service["spec"]["selector"] == labels
    assert budget["spec"]["selector"]["matchLabels"] == labels
    assert service["spec"]["sessionAffinity"] == "ClientIP"
    [container] = pods["spec"]["template"]["spec"]["containers"]
    assert {each["name"] for each in container["env"]} <= KNOWN
    assert {"MISSTEP_CLUSTER", "MISSTEP_HASH_KEY"} <= {each["name"] for each in container["env"]}
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == set(ports)
    assert "data" in {claim["metadata"]["name"] for claim in pods["spec"]["volumeClaimTemplates"]}
