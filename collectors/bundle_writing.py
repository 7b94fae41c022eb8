"""Writing a bundle: the structs that were decoded, in the shape of the APIs' own answers.

The structs hold only fields that some rule or page reads, so writing them is the filter that the
contract asks for: annotations, managed fields, commands and arguments are not there to be
written, and of the environment only what :mod:`collectors.privacy` names.
"""

from __future__ import annotations

import io
import json
import shutil
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, Self

import msgspec

from collectors.archive import BundleError
from collectors.bundle_layout import KUBERNETES_FILES, RAY_FILES
from collectors.discovery import folder_name
from collectors.manifest import FORMAT
from collectors.privacy import without_private_values
from collectors.tpu_metrics import render_exposition
from fleet.observation import KubernetesObservation, Observation, RayObservation, Truncation

_KINDS = {
    "pods": ("v1", "Pod"),
    "nodes": ("v1", "Node"),
    "services": ("v1", "Service"),
    "events": ("v1", "Event"),
    "ray_clusters": ("ray.io/v1", "RayCluster"),
    "slices": ("accelerator.gke.io/v1beta1", "Slice"),
}


class _Sink(Protocol):
    def add(self, name: str, data: bytes) -> None: ...

    def close(self) -> None: ...


class BundleWriter:
    """Writes looks one by one, as a context manager. The bundle appears when it is complete.

    A path that ends in ``.tar.gz``, ``.tgz`` or ``.zip`` becomes an archive, any other a folder.
    """

    def __init__(self, path: str | Path, *, frames: int = 1) -> None:
        """A writer.

        Args:
            path: must not exist yet (an empty folder may).
            frames: how many looks will be added; more than one go below ``frames/``.

        Raises:
            BundleError: the path is taken or cannot be written.
        """
        self._path = Path(path)
        self._partial = self._path.with_name(f".{self._path.name}.partial")
        self._frames = frames
        self._added = 0
        if self._path.exists() and not _is_empty_folder(self._path):
            raise BundleError(f"{self._path}: is there already; give a new name")
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            _remove(self._partial)
            self._sink = _sink(self._path.name, self._partial)
        except OSError as error:
            raise BundleError(f"{self._path}: {error.strerror or error}") from error

    def add(self, observation: Observation) -> None:
        """Write one look.

        Raises:
            BundleError: the disk does not take it.
        """
        self._added += 1
        top = f"frames/{self._added:04d}/" if self._frames > 1 else ""
        try:
            for name, data in _files(observation):
                self._sink.add(top + name, data)
        except OSError as error:
            raise BundleError(f"{self._path}: {error.strerror or error}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Complete the bundle if it holds at least one look (also after Ctrl-C), else remove it."""
        try:
            self._sink.close()
            if self._added and (error is None or isinstance(error, KeyboardInterrupt)):
                if self._path.is_dir():
                    self._path.rmdir()
                self._partial.replace(self._path)
            else:
                _remove(self._partial)
        except OSError as problem:
            if error is None:
                raise BundleError(f"{self._path}: {problem.strerror or problem}") from problem


def write_bundle(path: str | Path, frames: Sequence[Observation]) -> None:
    """Write looks as a bundle; see :class:`BundleWriter`.

    Raises:
        BundleError: the path is taken or cannot be written.
    """
    with BundleWriter(path, frames=len(frames)) as writer:
        for observation in frames:
            writer.add(observation)


# --- what is written ------------------------------------------------------------------------


def _files(observation: Observation) -> Iterator[tuple[str, bytes]]:
    yield "manifest.json", _json(_manifest(observation))
    if observation.kubernetes is not None:
        yield from _kubernetes_files(observation.kubernetes)
    for ray in observation.ray:
        yield from _ray_files(ray)


def _manifest(observation: Observation) -> dict[str, object]:
    kubernetes = observation.kubernetes
    sources = [kubernetes.source] if kubernetes is not None else []
    sources += [ray.source for ray in observation.ray]
    return {
        "format": FORMAT,
        "captured_at": _time(observation.now),
        "context": kubernetes.context if kubernetes is not None else None,
        "sources": [_plain(source) for source in sources],
        "ray": [
            {
                "namespace": ray.namespace,
                "cluster": ray.cluster,
                "address": ray.address,
                "version": ray.version,
            }
            for ray in observation.ray
        ],
    }


def _time(now: float) -> str:
    text = datetime.fromtimestamp(now, UTC).isoformat(timespec="microseconds")
    return text.replace(".000000", "").replace("+00:00", "Z")


def _kubernetes_files(look: KubernetesObservation) -> Iterator[tuple[str, bytes]]:
    for file, part in KUBERNETES_FILES.items():
        rows = getattr(look, part)
        if rows is None:
            continue
        version, kind = _KINDS[part]
        items = [
            {"apiVersion": version, "kind": kind, **_plain(row)}
            for row in without_private_values(part, rows)
        ]
        yield f"kubernetes/{file}", _json({"apiVersion": "v1", "kind": "List", "items": items})


def _ray_files(look: RayObservation) -> Iterator[tuple[str, bytes]]:
    top = f"ray/{folder_name(look.namespace, look.cluster)}"
    lost = {item.part: item for item in look.source.truncated}
    for file, part in RAY_FILES.items():
        rows = getattr(look, part)
        if rows is not None:
            answer = _ray_answer([_ray_row(part, row) for row in rows], lost.get(part))
            yield f"{top}/{file}", _json(answer)
    if look.cluster_status is not None:
        data = {"autoscalingStatus": look.cluster_status}
        yield f"{top}/cluster_status.json", _json({"result": True, "msg": "", "data": data})
    if look.tpu_samples is not None:
        yield f"{top}/tpu_metrics.prom", render_exposition(look.tpu_samples).encode()


def _ray_row(part: str, row: msgspec.Struct) -> dict[str, Any]:
    plain = _plain(row)
    if part == "jobs":
        # Command lines carry passwords, and no rule reads them.
        plain.pop("entrypoint", None)
    return plain


def _ray_answer(rows: list[dict[str, Any]], lost: Truncation | None) -> dict[str, object]:
    total = lost.total if lost is not None and lost.total >= 0 else len(rows)
    warning = "rows are missing" if lost is not None and lost.total < 0 else ""
    result = {
        "total": total,
        "num_after_truncation": len(rows),
        "num_filtered": len(rows),
        "result": rows,
        "partial_failure_warning": warning,
        "warnings": None,
    }
    return {"result": True, "msg": "", "data": {"result": result}}


def _plain(value: Any) -> Any:
    """Structs as plain data in the API's own field names, without fields that are not set."""
    if isinstance(value, msgspec.Struct):
        return {
            name: _plain(each)
            for field, name in zip(
                value.__struct_fields__, value.__struct_encode_fields__, strict=True
            )
            if (each := getattr(value, field)) is not None
        }
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _json(value: object) -> bytes:
    try:
        return msgspec.json.format(msgspec.json.encode(value), indent=1)
    except (OverflowError, msgspec.MsgspecError):
        return json.dumps(value, indent=1).encode()  # a number beyond 64 bits


# --- where it is written --------------------------------------------------------------------


def _is_empty_folder(path: Path) -> bool:
    return path.is_dir() and not any(path.iterdir())


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sink(name: str, path: Path) -> _Sink:
    makers: dict[str, Callable[[Path], _Sink]] = {
        ".tar.gz": _TarSink,
        ".tgz": _TarSink,
        ".zip": _ZipSink,
    }
    for suffix, make in makers.items():
        if name.endswith(suffix):
            return make(path)
    return _FolderSink(path)


class _FolderSink:
    def __init__(self, path: Path) -> None:
        self._path = path
        path.mkdir(parents=True)

    def add(self, name: str, data: bytes) -> None:
        target = self._path / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def close(self) -> None:
        pass


class _TarSink:
    def __init__(self, path: Path) -> None:
        self._archive = tarfile.open(path, "w:gz")  # noqa: SIM115 - closed by close()

    def add(self, name: str, data: bytes) -> None:
        member = tarfile.TarInfo(name)
        member.size = len(data)
        member.mode = 0o644
        self._archive.addfile(member, io.BytesIO(data))

    def close(self) -> None:
        self._archive.close()


class _ZipSink:
    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED)

    def add(self, name: str, data: bytes) -> None:
        self._archive.writestr(name, data)

    def close(self) -> None:
        self._archive.close()
