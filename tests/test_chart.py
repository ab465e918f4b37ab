"""The Helm chart, rendered by Helm's own library, held to Kubernetes' schemas and to what the program takes."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import helm_python
import kubernetes_validate
import pytest
import yaml

from collector.settings import Settings

ROOT = Path(__file__).parent.parent
CHART = ROOT / "charts/misstep"
LEAST: dict[str, Any] = {"tokens": {"existingSecret": "tokens"}, "dashboard": {"signInSecret": "sign-in"}}
OPEN: dict[str, Any] = {"open": True, "dashboard": {"open": True}}
ALL: dict[str, Any] = {
    **LEAST,
    "dashboard": {
        "signInSecret": "sign-in", "url": "https://misstep.example.org",
        "extraEnv": [{"name": "MISSTEP_TRACE_URL", "value": "https://t/{trace_id}"}],
    },
    "image": {"repository": "r.example.org/misstep", "digest": f"sha256:{'a' * 64}"},
    "imagePullSecrets": [{"name": "pull"}],
    "settings": {"retention": "90d", "workers": 2, "forward_raw": True, "metrics_services": "a,b",
                 "queue": 67108864, "retention_size": 20000000000, "metrics_settle": 0.5},
    "extraEnv": [{"name": "MISSTEP_LANGFUSE_URL", "value": "https://lf.example.org"}],
    "rules": {"existingSecret": "rules"},
    "persistence": {"storageClass": "fast", "size": "5Gi"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "grafanaDashboard": {"enabled": True},
    "podAnnotations": {"a": "b"}, "nodeSelector": {"a": "b"}, "tolerations": [{"operator": "Exists"}],
    "affinity": {"nodeAffinity": {}},
}  # fmt: skip
ALONE: dict[str, Any] = {
    "open": True, "dashboard": {"enabled": False}, "persistence": {"existingClaim": "mine"},
}  # fmt: skip
VALUES = {"least": LEAST, "open": OPEN, "all": ALL, "alone": ALONE}


def rendered(values: dict[str, Any], name: str = "misstep") -> list[dict[str, Any]]:
    with helm_python.Chart.load(CHART) as chart:
        files = chart.render(values=values, name=name, namespace="agents")
    texts = [text for path, text in files.items() if path.endswith(".yaml")]
    return [one for text in texts for one in yaml.safe_load_all(text) if one]


def of(kind: str, found: list[dict[str, Any]], part: str = "") -> dict[str, Any]:
    [one] = [each for each in found if each["kind"] == kind and each["metadata"]["name"].endswith(part or "misstep")]
    return one


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_kubernetes_takes_what_it_renders(values: dict[str, Any]) -> None:
    assert helm_python.lint(CHART, values, strict=True)["errors"] == []
    found = rendered(values)
    assert len({(one["kind"], one["metadata"]["name"]) for one in found}) == len(found)
    for one in found:
        if one["kind"] != "ServiceMonitor":  # a kind of the Prometheus operator's
            for version in ("1.25", "1.37"):
                kubernetes_validate.validate(one, version, strict=True)


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
@pytest.mark.parametrize("name", ["misstep", "prod", "x" * 53])
def test_names_and_selectors_find_each_other(values: dict[str, Any], name: str) -> None:
    found = rendered(values, name)
    pods = [one["spec"]["template"] for one in found if one["kind"] in ("StatefulSet", "Deployment")]
    for service in (one for one in found if one["kind"] == "Service"):
        chosen = [pod for pod in pods if service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()]
        assert len(chosen) == 1
        ports = {port["name"] for port in chosen[0]["spec"]["containers"][0]["ports"]}
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports
        assert len(service["metadata"]["name"]) <= 63
    for one in found:
        if one["kind"] in ("StatefulSet", "Deployment"):
            labels = one["spec"]["template"]["metadata"]["labels"]
            assert one["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_pods_may_do_nothing_but_write_their_data(values: dict[str, Any]) -> None:
    pods = [one["spec"]["template"]["spec"] for one in rendered(values) if one["kind"] in ("StatefulSet", "Deployment")]
    for pod in pods:
        assert pod["automountServiceAccountToken"] is False
        security = pod["securityContext"]
        assert (security["runAsNonRoot"], security["runAsUser"], security["fsGroup"]) == (True, 10001, 10001)
        assert security["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in pod["containers"]:
            assert container["securityContext"] == {
                "allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]},
            }  # fmt: skip
            assert {"startupProbe", "livenessProbe", "readinessProbe"} <= container.keys()
            assert "memory" in container["resources"]["limits"]
    assert "useradd --uid 10001" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_the_program_takes_what_it_is_given(values: dict[str, Any]) -> None:
    settings = {f"MISSTEP_{each.name.upper()}" for each in fields(Settings)}
    for one in rendered(values):
        if one["kind"] not in ("StatefulSet", "Deployment"):
            continue
        [container] = one["spec"]["template"]["spec"]["containers"]
        assert container["args"] in (["misstep", "collector"], ["misstep", "dashboard"])
        names = [each["name"] for each in container["env"]]
        assert set(names) <= settings
        assert len(names) == len(set(names))
        for variable in container["env"]:
            assert isinstance(variable.get("value", ""), str), variable
    assert one


def test_a_setting_is_taken_as_it_was_written() -> None:
    [container] = of("StatefulSet", rendered(ALL))["spec"]["template"]["spec"]["containers"]
    given = {each["name"]: each["value"] for each in container["env"] if "value" in each}
    assert {name: given[f"MISSTEP_{name.upper()}"] for name in ALL["settings"]} == {
        "retention": "90d", "workers": "2", "forward_raw": "true", "metrics_services": "a,b",
        "queue": "67108864", "retention_size": "20000000000", "metrics_settle": "0.5",
    }  # fmt: skip


def test_one_collector_has_one_volume_and_nothing_else_keeps_data() -> None:
    found = rendered(ALL)
    collector = of("StatefulSet", found)
    assert collector["spec"]["replicas"] == 1
    [claim] = collector["spec"]["volumeClaimTemplates"]
    assert claim["spec"]["resources"]["requests"]["storage"] == "5Gi"
    assert "clickhouse" not in json.dumps(found).lower()
    kinds = sorted(one["kind"] for one in found)
    assert kinds == ["ConfigMap", "Deployment", "Service", "Service", "ServiceMonitor", "StatefulSet"]
    alone = of("StatefulSet", rendered(ALONE))
    assert "volumeClaimTemplates" not in alone["spec"]
    volumes = alone["spec"]["template"]["spec"]["volumes"]
    assert {"name": "data", "persistentVolumeClaim": {"claimName": "mine"}} in volumes
    assert [one["kind"] for one in rendered(ALONE)] == ["StatefulSet", "Service"]


def test_secrets_are_named_and_never_written_out() -> None:
    collector, dashboard = (of(kind, rendered(ALL), part) for kind, part in (("StatefulSet", ""), ("Deployment", "d")))
    told = {}
    for one in (collector, dashboard):
        for variable in one["spec"]["template"]["spec"]["containers"][0]["env"]:
            if "valueFrom" in variable:
                told[variable["name"]] = variable["valueFrom"]["secretKeyRef"]
    assert {name: ref["key"] for name, ref in told.items()} == {
        "MISSTEP_INGEST_TOKENS": "ingest", "MISSTEP_QUERY_TOKENS": "query", "MISSTEP_ALERTS_TOKENS": "alerts",
        "MISSTEP_ADMIN_TOKENS": "admin",
        "MISSTEP_QUERY_TOKEN": "query", "MISSTEP_ALERTS_TOKEN": "alerts",
    }  # fmt: skip
    assert {ref["name"] for ref in told.values()} == {"tokens"}
    [scraped] = of("ServiceMonitor", rendered(ALL))["spec"]["endpoints"]
    assert scraped["authorization"] == {"credentials": {"name": "tokens", "key": "query"}}
    image = collector["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image == f"r.example.org/misstep@sha256:{'a' * 64}"
    mounted = {volume["name"]: volume["secret"]["secretName"] for one in (collector, dashboard)
               for volume in one["spec"]["template"]["spec"]["volumes"] if "secret" in volume}  # fmt: skip
    assert mounted == {"rules": "rules", "sign-in": "sign-in"}


def test_prometheus_and_grafana_find_it() -> None:
    found = rendered(ALL)
    monitor, service = of("ServiceMonitor", found), of("Service", found)
    assert monitor["spec"]["selector"]["matchLabels"].items() <= service["metadata"]["labels"].items()
    [endpoint] = monitor["spec"]["endpoints"]
    assert endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
    assert (endpoint["path"], endpoint["honorLabels"]) == ("/metrics", True)
    assert monitor["metadata"]["labels"]["release"] == "prometheus"
    board = of("ConfigMap", found, "grafana")
    assert json.loads(board["data"]["misstep.json"]) == json.loads((ROOT / "examples/grafana.json").read_text())
    assert board["metadata"]["labels"]["grafana_dashboard"] == "1"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"dashboard": {"open": True}}, "set tokens.existingSecret"),
        ({"dashboard": {"enabled": False}}, "set tokens.existingSecret"),
        ({"open": True}, "set dashboard.signInSecret"),
        ({**OPEN, "token": "x"}, "token"),
        ({**OPEN, "settings": {"ingest_tokens": "x"}}, "ingest_tokens"),
        ({**OPEN, "settings": {"RETENTION": "1d"}}, "RETENTION"),
        ({**OPEN, "image": {"digest": "latest"}}, "digest"),
    ],
)
def test_what_would_not_work_is_refused_with_its_name(values: dict[str, Any], message: str) -> None:
    with helm_python.Chart.load(CHART) as chart, pytest.raises(helm_python.HelmError, match=re.escape(message)):
        chart.render(values=values, name="misstep")


def test_the_chart_is_of_this_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = (ROOT / "pyproject.toml").read_text()
    assert f'version = "{chart["appVersion"]}"' in project
