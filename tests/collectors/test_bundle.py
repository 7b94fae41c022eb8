from __future__ import annotations

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import msgspec
import pytest

from collectors.bundle import BundleError, BundleWriter, read_bundle, write_bundle
from fleet.observation import (
    KubernetesObservation,
    Observation,
    RayJob,
    RayObservation,
    SourceStatus,
    TpuSample,
    Truncation,
)

EXAMPLES = sorted(
    path.parent.name for path in (Path(__file__).parent.parent / "bundles").glob("*/expect.json")
)
LIST = {"kind": "List", "items": []}
RAY = {"result": True, "msg": "", "data": {"result": {"total": 0, "result": []}}}
KUBERNETES = ("pods", "nodes", "services", "events", "rayclusters")
RAY_FILES = ("nodes", "placement_groups", "actors", "tasks")
CLUSTER = {"metadata": {"name": "train", "namespace": "ml"}}


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A complete one of one empty Ray cluster on Kubernetes."""
    path = tmp_path / "bundle"
    for name in KUBERNETES:
        put(path, f"kubernetes/{name}.json", LIST)
    put(path, "kubernetes/rayclusters.json", {"items": [CLUSTER]})
    for name in RAY_FILES:
        put(path, f"ray/ml__train/{name}.json", RAY)
    put(path, "manifest.json", {"format": 1, "captured_at": "2026-11-30T10:00:00Z"})
    return path


def put(path: Path, name: str, value: object) -> None:
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    (path / name).write_text(value if isinstance(value, str) else json.dumps(value))


def ray(look: Observation, key: tuple[str, str] = ("ml", "train")) -> RayObservation:
    return next(item for item in look.ray if (item.namespace, item.cluster) == key)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_read(bundles: Path, name: str) -> None:
    looks = read_bundle(bundles / name)
    assert len(looks) == (4 if name == "real_host_lost" else 1)
    assert [look.now for look in looks] == sorted(look.now for look in looks)
    for look in looks:
        assert (look.kubernetes is None) == name.startswith("real_")
        (cluster,) = look.ray
        assert cluster.nodes
        expected = "degraded" if name == "truncated_state_api" else "ok"
        assert cluster.source.status == expected
        assert cluster.source.complete == (expected == "ok")


def test_the_truncated_example(bundles: Path) -> None:
    (look,) = read_bundle(bundles / "truncated_state_api")
    assert look.ray[0].source.truncated == (Truncation(part="nodes", total=121, rows=100),)
    assert look.ray[0].source.reason == "truncated"


def test_a_complete_bundle(bundle: Path) -> None:
    (look,) = read_bundle(bundle)
    assert look.now == 1796032800.0
    assert look.kubernetes is not None
    assert look.kubernetes.source.status == "ok"
    assert ray(look).source.status == "ok"
    assert ray(look).source.name == "ray:ml/train"
    assert ray(look).jobs is None
    assert ray(look).source.missing == ()


# --- what is missing --------------------------------------------------------------------------


@pytest.mark.parametrize("name", KUBERNETES)
def test_a_missing_kubernetes_file(bundle: Path, name: str) -> None:
    (bundle / "kubernetes" / f"{name}.json").unlink()
    source = read_bundle(bundle)[0].kubernetes.source
    assert (source.status, source.reason, source.complete) == ("degraded", "missing", False)
    assert source.missing == ("ray_clusters" if name == "rayclusters" else name,)


@pytest.mark.parametrize("name", RAY_FILES)
def test_a_missing_ray_file(bundle: Path, name: str) -> None:
    (bundle / "ray" / "ml__train" / f"{name}.json").unlink()
    look = ray(read_bundle(bundle)[0])
    assert (look.source.status, look.source.missing) == ("degraded", (name,))
    assert getattr(look, name) is None


def test_a_raycluster_without_its_folder_is_down(bundle: Path) -> None:
    shutil.rmtree(bundle / "ray")
    look = ray(read_bundle(bundle)[0])
    assert (look.source.status, look.source.reason) == ("down", "missing")
    assert not look.source.complete
    assert "ray/ml__train/" in look.source.detail
    assert look.nodes is None


def test_an_empty_folder_is_down(bundle: Path) -> None:
    shutil.rmtree(bundle / "ray")
    (bundle / "ray" / "ml__train").mkdir(parents=True)
    assert ray(read_bundle(bundle)[0]).source.status == "down"


@pytest.mark.parametrize(
    "suspended",
    [
        {"spec": {"suspend": True}},
        {"status": {"state": "suspended"}},
        {"status": {"conditions": [{"type": "RayClusterSuspended", "status": "True"}]}},
    ],
)
def test_a_suspended_raycluster_is_not_down(bundle: Path, suspended: dict[str, object]) -> None:
    put(bundle, "kubernetes/rayclusters.json", {"items": [{**CLUSTER, **suspended}]})
    shutil.rmtree(bundle / "ray")
    source = ray(read_bundle(bundle)[0]).source
    assert (source.status, source.complete) == ("suspended", True)


def test_a_ray_folder_without_kubernetes(bundle: Path) -> None:
    shutil.rmtree(bundle / "kubernetes")
    (look,) = read_bundle(bundle)
    assert look.kubernetes is not None
    assert look.kubernetes.source.status == "down"
    assert look.kubernetes.pods is None
    assert ray(look).source.status == "ok"


def test_a_bare_ray_cluster_is_complete(bundle: Path) -> None:
    shutil.rmtree(bundle / "kubernetes")
    (bundle / "ray" / "ml__train").rename(bundle / "ray" / "default")
    (look,) = read_bundle(bundle)
    assert look.kubernetes is None
    assert ray(look, ("-", "default")).source.status == "ok"
    assert ray(look, ("-", "default")).source.name == "ray:-/default"


@pytest.mark.parametrize("name", ["kubernetes/pods.json", "ray/ml__train/nodes.json"])
@pytest.mark.parametrize("text", ["", "junk", '{"items": [', "null", "<html>"])
def test_a_damaged_file_leaves_the_rest(bundle: Path, name: str, text: str) -> None:
    put(bundle, name, text)
    (look,) = read_bundle(bundle)
    damaged, whole = look.kubernetes.source, ray(look).source
    if name.startswith("ray"):
        damaged, whole = whole, damaged
    assert whole.status == "ok"
    assert damaged.status == "degraded"
    assert damaged.reason in ("not_json", "truncated", "malformed")


def test_only_the_first_page(bundle: Path) -> None:
    put(bundle, "kubernetes/pods.json", {"items": [], "metadata": {"continue": "x"}})
    source = read_bundle(bundle)[0].kubernetes.source
    assert source.truncated == (Truncation(part="pods", total=-1, rows=0),)
    assert source.status == "degraded"


def test_optional_files_do_no_harm(bundle: Path) -> None:
    put(bundle, "ray/ml__train/cluster_status.json", "junk")
    put(bundle, "ray/ml__train/notes.txt", "hello")
    put(bundle, "README.md", "hello")
    assert ray(read_bundle(bundle)[0]).source.status == "ok"


# --- manifest, time, frames -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manifest", "words"),
    [
        ({"format": 7}, "format 7 is newer than this version reads (1)"),
        ({"format": 10**30}, "is newer"),
        ({"format": 0}, "not a format number"),
        ({"format": "1"}, "not a format number"),
        ({"format": None}, "not a format number"),
        ({"format": True}, "not a format number"),
    ],
)
def test_formats(bundle: Path, manifest: dict[str, object], words: str) -> None:
    put(bundle, "manifest.json", manifest)
    with pytest.raises(BundleError) as caught:
        read_bundle(bundle)
    assert "manifest.json" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize("manifest", ["", "junk", "[]", '{"captured_at": 3}', "{}", "null"])
def test_without_a_readable_manifest_now_is_the_newest_time(bundle: Path, manifest: str) -> None:
    put(bundle, "manifest.json", manifest)
    pod = {
        "metadata": {"name": "a", "creationTimestamp": "2026-11-30T04:00:00Z"},
        "status": {"conditions": [{"lastTransitionTime": "2026-11-30T09:00:00Z"}]},
    }
    absurd = {"metadata": {"name": "b", "creationTimestamp": "9999-11-30T04:00:00Z"}}
    doomed = {"metadata": {"name": "c", "deletionTimestamp": "2026-12-30T09:00:00Z"}}
    put(bundle, "kubernetes/pods.json", {"items": [pod, absurd, doomed]})
    assert read_bundle(bundle)[0].now == 1796029200.0
    row = {"node_id": "a", "start_time_ms": 1796029300000, "end_time_ms": 10**30}
    answer = {"result": True, "data": {"result": {"total": 1, "result": [row]}}}
    put(bundle, "ray/ml__train/nodes.json", answer)
    assert read_bundle(bundle)[0].now == 1796029300.0
    heartbeat = {"status": {"conditions": [{"lastHeartbeatTime": "2026-11-30T09:30:00Z"}]}}
    put(bundle, "kubernetes/nodes.json", {"items": [{"metadata": {"name": "n"}, **heartbeat}]})
    assert read_bundle(bundle)[0].now == 1796031000.0


def test_no_time_at_all(bundle: Path) -> None:
    (bundle / "manifest.json").unlink()
    with pytest.raises(BundleError, match="no time"):
        read_bundle(bundle)


def test_frames_are_sorted_by_time(bundle: Path, tmp_path: Path) -> None:
    frames = tmp_path / "frames"
    for name, hour in (("0001", 11), ("0002", 10)):
        shutil.copytree(bundle, frames / "frames" / name)
        manifest = {"captured_at": f"2026-11-30T{hour}:00:00Z"}
        put(frames / "frames" / name, "manifest.json", manifest)
    (frames / "frames" / "0003").mkdir()
    assert [look.now for look in read_bundle(frames)] == [1796032800.0, 1796036400.0]
    put(frames, "manifest.json", {"format": 2})
    with pytest.raises(BundleError, match="newer"):
        read_bundle(frames)


@pytest.mark.parametrize("top", ["", "mybundle/", "./", "./my-bundle/"])
@pytest.mark.parametrize("kind", ["tar.gz", "tar", "zip"])
def test_archives_with_and_without_a_folder_around(
    bundle: Path, tmp_path: Path, top: str, kind: str
) -> None:
    path = tmp_path / f"a.{kind}"
    files = [item for item in sorted(bundle.rglob("*")) if item.is_file()]
    if kind == "zip":
        with zipfile.ZipFile(path, "w") as file:
            for item in files:
                file.write(item, top.removeprefix("./") + str(item.relative_to(bundle)))
            file.writestr("__MACOSX/._x", b"")
    else:
        with tarfile.open(path, "w:gz" if kind == "tar.gz" else "w") as archive:
            for item in files:
                archive.add(item, top + str(item.relative_to(bundle)))
    assert read_bundle(path) == read_bundle(bundle)


def test_several_bundles_in_one_archive(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "a.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        archive.add(bundle, "one")
        archive.add(bundle, "two")
    with pytest.raises(BundleError, match="several bundles"):
        read_bundle(path)


# --- writing ----------------------------------------------------------------------------------


def without_entrypoints(look: Observation) -> Observation:
    replace = msgspec.structs.replace
    clusters = tuple(
        replace(item, jobs=tuple(replace(job, entrypoint=None) for job in item.jobs or ()))
        for item in look.ray
    )
    return replace(look, ray=clusters)


@pytest.mark.parametrize("suffix", ["", ".tar.gz", ".tgz", ".zip"])
@pytest.mark.parametrize("name", EXAMPLES)
def test_what_is_written_reads_the_same(
    bundles: Path, tmp_path: Path, name: str, suffix: str
) -> None:
    looks = [without_entrypoints(look) for look in read_bundle(bundles / name)]
    write_bundle(tmp_path / f"b{suffix}", looks)
    assert read_bundle(tmp_path / f"b{suffix}") == looks


def failed(name: str, reason: str) -> SourceStatus:
    return SourceStatus(
        name=name, status="down", reason=reason, detail="words", complete=False, fetched_at=5.0
    )


def test_how_sources_failed_is_kept(tmp_path: Path) -> None:
    look = Observation(
        now=1796032800.125,
        kubernetes=KubernetesObservation(
            source=failed("kubernetes", "forbidden"), context="gke_p_z_c"
        ),
        ray=(
            RayObservation(
                source=failed("ray:-/default", "refused"), namespace="-", cluster="default"
            ),
            RayObservation(
                source=SourceStatus(
                    name="ray:ml/train",
                    status="degraded",
                    reason="truncated",
                    complete=False,
                    missing=("actors",),
                    truncated=(
                        Truncation(part="nodes", total=9, rows=0),
                        Truncation(part="tasks", total=-1, rows=0),
                    ),
                    malformed=("nodes: row 3: expected a string",),
                ),
                namespace="ml",
                cluster="train",
                address="http://h:8265",
                version="2.60.0",
                nodes=(),
                placement_groups=(),
                tasks=(),
                cluster_status='text "quoted"\n',
                tpu_samples=(
                    TpuSample(metric="duty_cycle", value=97.25, chip='a"\\b\n', ray_node_id="n"),
                    TpuSample(metric="memory_used", value=2.0**40, pod="p", namespace="ml"),
                ),
            ),
        ),
    )
    write_bundle(tmp_path / "b", [look])
    assert read_bundle(tmp_path / "b") == [look]


def test_a_manifest_cannot_make_a_source_healthier(bundle: Path) -> None:
    (look,) = read_bundle(bundle)
    sources = [msgspec.to_builtins(look.kubernetes.source), msgspec.to_builtins(ray(look).source)]
    manifest = {"captured_at": "2026-11-30T10:00:00Z", "sources": sources}
    put(bundle, "manifest.json", manifest)
    (bundle / "kubernetes" / "pods.json").unlink()
    shutil.rmtree(bundle / "ray")
    (look,) = read_bundle(bundle)
    assert look.kubernetes.source.status == "degraded"
    assert ray(look).source.status == "down"


def test_secrets_are_not_written(bundle: Path, tmp_path: Path) -> None:
    secret = "hunter2"
    pod = {
        "metadata": {
            "name": "a",
            "annotations": {"k": secret},
            "managedFields": [{"x": secret}],
        },
        "spec": {
            "containers": [
                {
                    "command": [secret],
                    "args": [secret],
                    "env": [
                        {"name": "TPU_NAME", "value": "slice-0"},
                        {"name": "RAY_AUTH_TOKEN", "value": secret},
                        {"name": "PASSWORD", "value": secret},
                    ],
                }
            ],
            "volumes": [{"secret": {"secretName": secret}}],
        },
    }
    put(bundle, "kubernetes/pods.json", {"items": [pod]})
    (look,) = read_bundle(bundle)
    job = RayJob(job_id="1", entrypoint=f"python train.py --password {secret}")
    look = msgspec.structs.replace(look, ray=(msgspec.structs.replace(ray(look), jobs=(job,)),))
    write_bundle(tmp_path / "out", [look])
    files = [path for path in (tmp_path / "out").rglob("*") if path.is_file()]
    text = "".join(path.read_text() for path in files)
    assert secret not in text
    assert "slice-0" in text


def test_numbers_beyond_64_bits_are_written(bundle: Path, tmp_path: Path) -> None:
    row = {"node_id": "a", "start_time_ms": 10**30}
    answer = {"result": True, "data": {"result": {"total": 1, "result": [row]}}}
    put(bundle, "ray/ml__train/nodes.json", answer)
    looks = read_bundle(bundle)
    write_bundle(tmp_path / "out", looks)
    assert read_bundle(tmp_path / "out") == looks


def test_a_name_that_is_taken(bundle: Path, tmp_path: Path) -> None:
    looks = read_bundle(bundle)
    with pytest.raises(BundleError, match="there already"):
        write_bundle(bundle, looks)
    (tmp_path / "empty").mkdir()
    write_bundle(tmp_path / "empty", looks)
    assert read_bundle(tmp_path / "empty") == looks
    with pytest.raises(BundleError):
        write_bundle(bundle / "manifest.json" / "x", looks)


def test_an_interrupted_capture_keeps_what_it_has(bundle: Path, tmp_path: Path) -> None:
    (look,) = read_bundle(bundle)
    path = tmp_path / "out.tar.gz"
    with pytest.raises(KeyboardInterrupt), BundleWriter(path, frames=9) as writer:  # noqa: PT012
        writer.add(look)
        raise KeyboardInterrupt
    assert read_bundle(path) == [look]
    with pytest.raises(ZeroDivisionError), BundleWriter(tmp_path / "bad", frames=9) as writer:  # noqa: PT012
        writer.add(look)
        raise ZeroDivisionError
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bundle", "out.tar.gz"]
