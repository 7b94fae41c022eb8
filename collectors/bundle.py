"""Reading a bundle: what the APIs answered, in a folder, a ``.tar.gz`` or a ``.zip``.

The layout is the contract's (``docs`` and ``README`` show it). Any file may be missing, but what
should be there and is not makes its source degraded or down, never healthy.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from collectors.archive import BundleError, read_files
from collectors.bundle_layout import (
    KUBERNETES_FILES,
    RAY_FILES,
    Files,
    looks_of,
    wanted_in_archive,
    wanted_in_folder,
)
from collectors.bundle_writing import BundleWriter, write_bundle
from collectors.decoding import Decoded, decode_cluster_status, decode_kubernetes, decode_ray
from collectors.discovery import (
    BARE_NAMESPACE,
    folder_name,
    is_suspended,
    source_name,
    split_folder,
)
from collectors.manifest import Manifest, parse_manifest, recorded_or_derived
from collectors.newest import newest_time
from collectors.sources import KUBERNETES_NEEDED, RAY_NEEDED, Part, summarise
from collectors.tpu_metrics import parse_exposition
from fleet.observation import (
    KubernetesObservation,
    Observation,
    RayCluster,
    RayObservation,
    SourceStatus,
    Truncation,
)
from fleet.times import parse_time

log = logging.getLogger("slicewatch.bundle")


def read_bundle(path: str | Path) -> list[Observation]:
    """All looks of a bundle, oldest first.

    Args:
        path: a folder, or an archive that holds the tree at its top or in one folder.

    Returns:
        One observation a frame (one in all where there is no ``frames/``). Its ``now`` is the
        manifest's ``captured_at``, else the newest time found in the frame.

    Raises:
        BundleError: with one line that says what cannot be read, and where.
    """
    path = Path(path)
    files = read_files(path, wanted_in_folder if path.is_dir() else wanted_in_archive)
    looks = looks_of(path, files)
    observations = [
        _read_look(path, label, look) for label, look in sorted(looks.items(), key=lambda it: it[0])
    ]
    observations.sort(key=lambda observation: observation.now)
    return observations


# --- one look -------------------------------------------------------------------------------


def _read_look(path: Path, label: str, look: Files) -> Observation:
    place = f"{path}: {label}/manifest.json" if label else f"{path}: manifest.json"
    data = look.get(PurePosixPath("manifest.json"))
    manifest = parse_manifest(place, data) if data is not None else Manifest()
    recorded = {source.name: source for source in manifest.sources}
    kubernetes_parts = _kubernetes_parts(look)
    ray_parts = _ray_parts(look)
    now = parse_time(manifest.captured_at)
    if now is None:
        if manifest.captured_at:
            log.warning("%s: captured_at is no time, the newest one found is taken", place)
        now = newest_time(look, kubernetes_parts, ray_parts)
    if now is None:
        raise BundleError(
            f"{path}: {label or 'bundle'} holds no time at all, so nothing has an age"
        )
    kubernetes = _kubernetes(kubernetes_parts, look, ray_parts, recorded, manifest, now)
    return Observation(
        now=now,
        kubernetes=kubernetes,
        ray=_ray(ray_parts, look, kubernetes, recorded, manifest, now),
    )


def _file_part(decode: object, part: str, data: bytes | None) -> Part:
    if data is None:
        return Part(reason="malformed", detail="a folder, not a file")
    decoded: Decoded = decode(part, data)  # type: ignore[operator]
    if decoded.continue_token and decoded.rows is not None:
        rows = len(decoded.rows)
        decoded = msgspec.structs.replace(
            decoded,
            reason="truncated",
            detail=f"{part}: only the first page of {rows} rows",
            truncation=Truncation(part=part, total=-1, rows=rows),
        )
    return Part(decoded=decoded)


def _kubernetes_parts(look: Files) -> dict[str, Part]:
    parts = {}
    for file, part in KUBERNETES_FILES.items():
        name = PurePosixPath("kubernetes", file)
        if name in look:
            parts[part] = _file_part(decode_kubernetes, part, look[name])
    return parts


def _ray_parts(look: Files) -> dict[str, dict[str, Part]]:
    """Parts of each Ray cluster by the name of its folder."""
    folders: dict[str, dict[str, Part]] = {}
    for name, data in look.items():
        if name.parts[0] != "ray" or len(name.parts) < 2:
            continue
        if len(name.parts) == 2 and data is not None:
            continue  # a stray file
        parts = folders.setdefault(name.parts[1], {})
        part = RAY_FILES.get(name.name) if len(name.parts) == 3 else None
        if part:
            parts[part] = _file_part(decode_ray, part, data)
    return folders


def _rows(parts: Mapping[str, Part], part: str) -> tuple | None:
    found = parts.get(part)
    return found.decoded.rows if found and found.decoded else None


def _kubernetes(
    parts: Mapping[str, Part],
    look: Files,
    ray_folders: Iterable[str],
    recorded: Mapping[str, SourceStatus],
    manifest: Manifest,
    now: float,
) -> KubernetesObservation | None:
    there = any(name.parts[0] == "kubernetes" for name in look)
    wanted = any(split_folder(folder)[0] != BARE_NAMESPACE for folder in ray_folders)
    if not there and not wanted and "kubernetes" not in recorded:
        return None
    status = summarise("kubernetes", parts, needed=KUBERNETES_NEEDED, fetched_at=now)
    if not parts:
        status = msgspec.structs.replace(status, detail="the bundle holds no kubernetes/ files")
    return KubernetesObservation(
        source=recorded_or_derived(recorded.get("kubernetes"), status),
        context=manifest.context,
        pods=_rows(parts, "pods"),
        nodes=_rows(parts, "nodes"),
        services=_rows(parts, "services"),
        events=_rows(parts, "events"),
        ray_clusters=_rows(parts, "ray_clusters"),
        slices=_rows(parts, "slices"),
    )


def _ray(
    folders: Mapping[str, Mapping[str, Part]],
    look: Files,
    kubernetes: KubernetesObservation | None,
    recorded: Mapping[str, SourceStatus],
    manifest: Manifest,
    now: float,
) -> tuple[RayObservation, ...]:
    objects = {
        (cluster.metadata.namespace or "default", cluster.metadata.name): cluster
        for cluster in (kubernetes.ray_clusters if kubernetes else None) or ()
        if cluster.metadata is not None and cluster.metadata.name
    }
    found = {}
    for folder, parts in folders.items():
        key = split_folder(folder)
        found[key] = _ray_cluster(
            key, folder, parts, look, objects.get(key), recorded, manifest, now
        )
    for key, cluster in objects.items():
        if key not in found:
            found[key] = _without_folder(key, cluster, recorded, manifest)
    for name in recorded:
        kind, _, rest = name.partition(":")
        namespace, slash, cluster_name = rest.partition("/")
        key = (namespace, cluster_name)
        if kind == "ray" and slash and cluster_name and key not in found:
            found[key] = _without_folder(key, None, recorded, manifest)
    return tuple(found[key] for key in sorted(found))


def _ray_cluster(
    key: tuple[str, str],
    folder: str,
    parts: Mapping[str, Part],
    look: Files,
    cluster: RayCluster | None,
    recorded: Mapping[str, SourceStatus],
    manifest: Manifest,
    now: float,
) -> RayObservation:
    name = source_name(*key)
    all_parts = dict(parts)
    remarks: list[str] = []
    report = look.get(PurePosixPath("ray", folder, "cluster_status.json"))
    text = decode_cluster_status(report) if report is not None else None
    if report is not None and text is None:
        remarks.append("cluster_status: not an autoscaler report")  # no rule needs it
    exposition = look.get(PurePosixPath("ray", folder, "tpu_metrics.prom"))
    samples = None
    if exposition is not None:
        parsed = parse_exposition(exposition.decode("utf-8", "replace"))
        samples = parsed.samples
        if parsed.malformed:
            all_parts["tpu_metrics"] = Part(
                decoded=Decoded(
                    rows=samples,
                    reason="malformed",
                    detail=parsed.malformed[0],
                    malformed=parsed.malformed,
                )
            )
    status = summarise(name, all_parts, needed=RAY_NEEDED, fetched_at=now, remarks=remarks)
    if not parts:
        status = msgspec.structs.replace(status, detail=f"the folder ray/{folder}/ is empty")
    if status.status == "down" and cluster is not None and is_suspended(cluster):
        status = _suspended(name)
    extra = manifest.ray_of(*key)
    return RayObservation(
        source=recorded_or_derived(recorded.get(name), status),
        namespace=key[0],
        cluster=key[1],
        address=extra.address,
        version=extra.version,
        nodes=_rows(parts, "nodes"),
        placement_groups=_rows(parts, "placement_groups"),
        actors=_rows(parts, "actors"),
        tasks=_rows(parts, "tasks"),
        jobs=_rows(parts, "jobs"),
        cluster_status=text,
        tpu_samples=samples,
    )


def _suspended(name: str) -> SourceStatus:
    return SourceStatus(name=name, status="suspended", detail="the RayCluster is suspended")


def _without_folder(
    key: tuple[str, str],
    cluster: RayCluster | None,
    recorded: Mapping[str, SourceStatus],
    manifest: Manifest,
) -> RayObservation:
    name = source_name(*key)
    if cluster is not None and is_suspended(cluster):
        status = _suspended(name)
    else:
        status = summarise(name, {}, needed=RAY_NEEDED, fetched_at=None)
        detail = f"the bundle holds no ray/{folder_name(*key)}/ folder"
        status = msgspec.structs.replace(status, detail=detail)
    extra = manifest.ray_of(*key)
    return RayObservation(
        source=recorded_or_derived(recorded.get(name), status),
        namespace=key[0],
        cluster=key[1],
        address=extra.address,
        version=extra.version,
    )


__all__ = ["BundleError", "BundleWriter", "read_bundle", "write_bundle"]
