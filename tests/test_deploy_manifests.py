"""deploy/kubernetes: valid against the API's schemas, and no right beyond what is read."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from settings import Settings

Object = dict[str, Any]

READ = {"list", "watch"}
MAY_READ = {
    ("", "pods"),
    ("", "nodes"),
    ("", "services"),
    ("", "events"),
    ("ray.io", "rayclusters"),
    ("accelerator.gke.io", "slices"),
}
OVERLAYS = ("base", "headless", "namespaced", "persistent", "monitoring")


def objects_of(text: str) -> list[Object]:
    return [item for item in yaml.safe_load_all(text) if item]


@pytest.fixture(scope="module")
def manifests(root: Path) -> dict[Path, list[Object]]:
    files = sorted((root / "deploy" / "kubernetes").rglob("*.yaml"))
    assert files
    return {path: objects_of(path.read_text()) for path in files}


@pytest.fixture(scope="module")
def base(manifests: dict[Path, list[Object]]) -> dict[str, Object]:
    return {
        item["kind"]: item
        for path, items in manifests.items()
        if path.parent.name == "base"
        for item in items
    }


def validate(item: Object) -> None:
    if item["apiVersion"].partition("/")[0] in {
        "monitoring.coreos.com",
        "kustomize.config.k8s.io",
    }:
        return
    kubernetes_validate.validate(item, "1.32", strict=True)


def test_whole_manifests_fit_the_schemas(manifests: dict[Path, list[Object]]) -> None:
    for path, items in manifests.items():
        for item in items:
            patch = path.name == "deployment.yaml" and path.parent.name != "base"
            if not patch:
                validate(item)


@pytest.mark.kubectl
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_kustomize_builds_and_the_result_fits_the_schemas(root: Path, overlay: str) -> None:
    version = subprocess.run(
        ["kubectl", "version", "--client"], capture_output=True, text=True, timeout=30
    )
    if "Kustomize Version" not in version.stdout:
        pytest.skip("this kubectl's kustomize is too old for patches")
    built = subprocess.run(
        ["kubectl", "kustomize", f"deploy/kubernetes/{overlay}"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert built.returncode == 0, built.stderr
    items = objects_of(built.stdout)
    assert items
    for item in items:
        validate(item)


def rules(item: Object) -> set[tuple[str, str, str]]:
    return {
        (group, resource, verb)
        for rule in item.get("rules", [])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def test_the_account_may_read_what_is_read_and_nothing_else(base: dict[str, Object]) -> None:
    granted = rules(base["ClusterRole"])
    assert granted == {(group, resource, verb) for group, resource in MAY_READ for verb in READ}


def test_the_namespaced_way_grants_no_more_than_the_whole(
    manifests: dict[Path, list[Object]], base: dict[str, Object]
) -> None:
    split: set[tuple[str, str, str]] = set()
    for path, items in manifests.items():
        if path.parent.name == "namespaced":
            for item in items:
                split |= rules(item)
    assert split == rules(base["ClusterRole"])


def test_the_proxy_right_is_apart_and_only_gets(manifests: dict[Path, list[Object]]) -> None:
    for path, items in manifests.items():
        granted = set().union(*(rules(item) for item in items))
        if path.parent.name == "out-of-cluster":
            assert granted == {("", "services/proxy", "get")}
        else:
            assert not any(resource == "services/proxy" for _, resource, _ in granted)


def test_bindings_name_roles_and_accounts_that_exist(manifests: dict[Path, list[Object]]) -> None:
    items = [item for found in manifests.values() for item in found]
    names = {(item["kind"], item["metadata"]["name"]) for item in items if "metadata" in item}
    for item in items:
        if item["kind"] in {"RoleBinding", "ClusterRoleBinding"}:
            assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in names
            for subject in item["subjects"]:
                assert (subject["kind"], subject["name"]) in names


def test_the_pod_is_locked_down_and_probed(base: dict[str, Object]) -> None:
    spec = base["Deployment"]["spec"]["template"]["spec"]
    container = spec["containers"][0]
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["resources"]["requests"]
    assert container["resources"]["limits"]["memory"]
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    writable = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert writable == {"/tmp", "/var/lib/slicewatch"}


def test_history_is_kept_smaller_than_its_volume(base: dict[str, Object]) -> None:
    spec = base["Deployment"]["spec"]["template"]["spec"]
    env = {item["name"]: item.get("value") for item in spec["containers"][0]["env"]}
    volume = next(item for item in spec["volumes"] if item["name"] == "history")
    assert volume["emptyDir"]["sizeLimit"] == "1Gi"
    assert int(env["SLICEWATCH_HISTORY_MEBIBYTES"]) < 1024
    mounts = {item["name"]: item["mountPath"] for item in spec["containers"][0]["volumeMounts"]}
    assert env["SLICEWATCH_HISTORY_PATH"].startswith(mounts["history"] + "/")


def test_every_variable_of_the_manifests_is_a_setting(
    manifests: dict[Path, list[Object]],
) -> None:
    known = {"RAY_AUTH_TOKEN"} | {f"SLICEWATCH_{name.upper()}" for name in Settings.model_fields}
    for path, items in manifests.items():
        for item in items:
            if item["kind"] == "Deployment":
                for container in item["spec"]["template"]["spec"]["containers"]:
                    named = {entry["name"] for entry in container.get("env", [])}
                    assert named <= known, (path, named - known)


def test_selectors_and_ports_agree(
    base: dict[str, Object], manifests: dict[Path, list[Object]]
) -> None:
    template = base["Deployment"]["spec"]["template"]
    labels = template["metadata"]["labels"]
    port = template["spec"]["containers"][0]["ports"][0]["name"]
    assert base["Service"]["spec"]["selector"].items() <= labels.items()
    assert base["Service"]["spec"]["ports"][0]["targetPort"] == port
    for kind, path in (("NetworkPolicy", ("podSelector",)), ("PodDisruptionBudget", ("selector",))):
        assert base[kind]["spec"][path[0]]["matchLabels"].items() <= labels.items()
    monitor = next(
        item for items in manifests.values() for item in items if item["kind"] == "PodMonitor"
    )
    assert monitor["spec"]["selector"]["matchLabels"].items() <= labels.items()
    assert monitor["spec"]["podMetricsEndpoints"][0]["port"] == port
    assert monitor["spec"]["podMetricsEndpoints"][0]["honorLabels"] is True


def test_the_policy_lets_everything_through_that_is_read(base: dict[str, Object]) -> None:
    ports = {
        port["port"] for rule in base["NetworkPolicy"]["spec"]["egress"] for port in rule["ports"]
    }
    assert {53, 443, 8265} <= ports
