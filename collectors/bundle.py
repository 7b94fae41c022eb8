"""Reading a bundle: what the APIs answered, in a folder, a ``.tar.gz`` or a ``.zip``.

The layout is the contract's (``docs`` and ``README`` show it). Any file may be missing, but what
should be there and is not makes its source degraded or down, never healthy.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePosixPath

import msgspec

from collectors.archive import BundleError, read_files
from collectors.decoding import Decoded, decode_cluster_status, decode_kubernetes, decode_ray
from collectors.discovery import BARE_NAMESPACE, is_suspended, source_name, split_folder
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

KUBERNETES_FILES = {
    "pods.json": "pods",
    "nodes.json": "nodes",
    "services.json": "services",
    "events.json": "events",
    "rayclusters.json": "ray_clusters",
    "slices.json": "slices",
}
RAY_FILES = {
    "nodes.json": "nodes",
    "placement_groups.json": "placement_groups",
    "actors.json": "actors",
    "tasks.json": "tasks",
    "jobs.json": "jobs",
}
RAY_TEXTS = ("cluster_status.json", "tpu_metrics.prom")

Files = Mapping[PurePosixPath, bytes | None]


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
    files = read_files(path, _wanted_in_folder if path.is_dir() else _wanted_in_archive)
    looks = _looks(path, files)
    observations = [
        _read_look(path, label, look) for label, look in sorted(looks.items(), key=lambda it: it[0])
    ]
    observations.sort(key=lambda observation: observation.now)
    return observations


# --- layout ---------------------------------------------------------------------------------

_LAYOUT = re.compile(
    r"(?:(?P<frame>frames/[^/]+)/)?"
    r"(?P<file>manifest\.json|kubernetes(?:/[^/]+)?|ray(?:/[^/]+){0,2})"
    r"|frames(?:/[^/]+)?"
)


def _wanted_in_folder(relative: PurePosixPath) -> bool:
    return _LAYOUT.fullmatch(str(relative)) is not None


def _wanted_in_archive(relative: PurePosixPath) -> bool:
    """As in a folder, or one folder deeper (``tar czf x.tgz mybundle``)."""
    if relative.parts[:1] == ("__MACOSX",):
        return False
    return _wanted_in_folder(relative) or _wanted_in_folder(PurePosixPath(*relative.parts[1:]))


def _known(relative: PurePosixPath) -> bool:
    """Is this one of the files that a bundle is made of?"""
    parts = relative.parts[2:] if relative.parts[:1] == ("frames",) else relative.parts
    if len(parts) == 2 and parts[0] == "kubernetes":
        return parts[1] in KUBERNETES_FILES
    if len(parts) == 3 and parts[0] == "ray":
        return parts[2] in RAY_FILES or parts[2] in RAY_TEXTS
    return parts == ("manifest.json",)


def _below(files: Files, top: PurePosixPath) -> dict[PurePosixPath, bytes | None]:
    return {
        name.relative_to(top): data
        for name, data in files.items()
        if name != top and name.is_relative_to(top)
    }


def _looks(path: Path, files: Files) -> dict[str, dict[PurePosixPath, bytes | None]]:
    """The files of each look by its label (``""``, or ``frames/0001``)."""
    root = dict(files)
    if not any(_known(name) for name, data in root.items() if data is not None):
        tops = {PurePosixPath(name.parts[0]) for name in files}
        inner = {top: _below(files, top) for top in tops}
        inner = {
            top: found
            for top, found in inner.items()
            if any(_known(name) for name, data in found.items() if data is not None)
        }
        if len(inner) > 1:
            names = ", ".join(sorted(ascii(str(top)) for top in inner)[:3])
            raise BundleError(f"{path}: holds several bundles ({names}): give one of them")
        root = next(iter(inner.values()), {})
    frames = sorted(
        {name.parts[1] for name in root if name.parts[0] == "frames" and name.parts[1:]}
    )
    looks = {}
    for frame in frames:
        look = _below(root, PurePosixPath("frames", frame))
        if any(_known(name) for name, data in look.items() if data is not None):
            looks[f"frames/{frame}"] = look
    if not looks:
        looks = {"": root}
    elif b := root.get(PurePosixPath("manifest.json")):
        parse_manifest(f"{path}: manifest.json", b)  # refuses a format that we do not know
    if not any(_is_content(look) for look in looks.values()):
        raise BundleError(
            f"{path}: not a bundle: holds none of kubernetes/*.json, ray/*/*.json, frames/"
        )
    return looks


def _is_content(look: Files) -> bool:
    for name, data in look.items():
        if data is not None and _known(name):
            if name.name != "manifest.json":
                return True
            if parse_manifest("manifest.json", data).sources:
                return True
    return False


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
        detail = f"the bundle holds no ray/{'__'.join(key)}/ folder"
        status = msgspec.structs.replace(status, detail=detail)
    extra = manifest.ray_of(*key)
    return RayObservation(
        source=recorded_or_derived(recorded.get(name), status),
        namespace=key[0],
        cluster=key[1],
        address=extra.address,
        version=extra.version,
    )


__all__ = ["BundleError", "read_bundle"]
