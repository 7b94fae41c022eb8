"""Which files a bundle is made of, where they lie, and how to find them in an archive."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from collectors.archive import BundleError
from collectors.manifest import parse_manifest

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


_LAYOUT = re.compile(
    r"(?:(?P<frame>frames/[^/]+)/)?"
    r"(?P<file>manifest\.json|kubernetes(?:/[^/]+)?|ray(?:/[^/]+){0,2})"
    r"|frames(?:/[^/]+)?"
)


def wanted_in_folder(relative: PurePosixPath) -> bool:
    """Is this path part of a bundle, or a folder of one?"""
    return _LAYOUT.fullmatch(str(relative)) is not None


def wanted_in_archive(relative: PurePosixPath) -> bool:
    """As in a folder, or one folder deeper (``tar czf x.tgz mybundle``)."""
    if relative.parts[:1] == ("__MACOSX",):
        return False
    return wanted_in_folder(relative) or wanted_in_folder(PurePosixPath(*relative.parts[1:]))


def known(relative: PurePosixPath) -> bool:
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


def looks_of(path: Path, files: Files) -> dict[str, dict[PurePosixPath, bytes | None]]:
    """The files of each look by its label (``""``, or ``frames/0001``)."""
    root = dict(files)
    if not any(known(name) for name, data in root.items() if data is not None):
        tops = {PurePosixPath(name.parts[0]) for name in files}
        inner = {top: _below(files, top) for top in tops}
        inner = {
            top: found
            for top, found in inner.items()
            if any(known(name) for name, data in found.items() if data is not None)
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
        if any(known(name) for name, data in look.items() if data is not None):
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
        if data is not None and known(name):
            if name.name != "manifest.json":
                return True
            if parse_manifest("manifest.json", data).sources:
                return True
    return False
