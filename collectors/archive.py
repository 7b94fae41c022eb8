"""The files of a folder, a ``.tar.gz`` or a ``.zip``, read into memory. Archives are hostile.

Nothing is ever written to disk. A path that leads outside, a link, a device, an encrypted or
doubled member refuses the whole archive: whoever made it on purpose meant harm, and an honest one
has none. Sizes are limited as they are read, not as the archive claims.
"""

from __future__ import annotations

import gzip
import io
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path, PurePosixPath
from typing import IO, cast

MEBIBYTE = 1024 * 1024

MAX_FILE = 256 * MEBIBYTE
"""10,000 pods are 48 MB of JSON; five times that is more than any cluster has."""

MAX_TOTAL = 512 * MEBIBYTE
"""Several looks at a large cluster, as ``kubectl`` prints them; a capture of ours is a fifth."""

MAX_MEMBERS = 20_000
"""Eleven files a cluster and look: 50 clusters in 36 looks."""


class BundleError(Exception):
    """The input cannot be read at all. The message is one line that says what and where."""


Wanted = Callable[[PurePosixPath], bool]


def read_files(path: Path, wanted: Wanted) -> dict[PurePosixPath, bytes | None]:
    """All wanted files below a folder or in an archive, by relative path; folders map to ``None``.

    Args:
        path: a folder, or an archive known by its first bytes (the name does not matter).
        wanted: which paths to read; the others only count against the limits.

    Raises:
        BundleError: unreadable, hostile or too large.
    """
    try:
        if path.is_dir():
            return dict(_folder(path, wanted))
        if not path.exists():
            raise BundleError(f"{path}: no such file or folder")
        if not path.is_file():
            raise BundleError(f"{path}: neither a folder nor a regular file")
        with path.open("rb") as file:
            return _archive(path, file, wanted)
    except OSError as error:
        raise BundleError(f"{path}: {error.strerror or error}") from error


class _Budget:
    """Counts members and bytes against the limits."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.members = 0
        self.total = 0

    def member(self) -> None:
        self.members += 1
        if self.members > MAX_MEMBERS:
            raise BundleError(f"{self.path}: more than {MAX_MEMBERS:,} files (limit on the number)")

    def size(self, name: str, size: int) -> None:
        if size > MAX_FILE:
            raise BundleError(
                f"{self.path}: {name} is larger than {MAX_FILE // MEBIBYTE} MiB (limit on one file)"
            )
        self.total += size
        if self.total > MAX_TOTAL:
            raise BundleError(
                f"{self.path}: more than {MAX_TOTAL // MEBIBYTE} MiB in all (limit on all files)"
            )


def _read(file: IO[bytes], name: str, budget: _Budget) -> bytes:
    data = file.read(MAX_FILE + 1)
    budget.size(name, len(data))
    return data


# --- folders --------------------------------------------------------------------------------


def _folder(root: Path, wanted: Wanted) -> Iterator[tuple[PurePosixPath, bytes | None]]:
    budget = _Budget(root)
    top = root.resolve()
    pending = [top]
    while pending:
        for entry in sorted(pending.pop().iterdir()):
            relative = PurePosixPath(entry.relative_to(top).as_posix())
            if not wanted(relative):
                continue
            budget.member()
            if not entry.resolve().is_relative_to(top):
                raise BundleError(
                    f"{root}: {_shown(str(relative))} is a link to outside the bundle"
                )
            mode = entry.stat().st_mode
            if stat.S_ISDIR(mode):
                if entry.is_symlink():
                    raise BundleError(f"{root}: {_shown(str(relative))} is a link to a folder")
                pending.append(entry)
                yield relative, None
            elif stat.S_ISREG(mode):
                with entry.open("rb") as file:
                    yield relative, _read(file, str(relative), budget)
            else:
                raise BundleError(f"{root}: {_shown(str(relative))} is no regular file")


# --- archives -------------------------------------------------------------------------------


def _archive(path: Path, file: IO[bytes], wanted: Wanted) -> dict[PurePosixPath, bytes | None]:
    start = file.read(512)
    file.seek(0)
    if not start:
        raise BundleError(f"{path}: empty file")
    try:
        if start.startswith((b"PK\x03\x04", b"PK\x05\x06")):
            members = _zip(path, file, wanted)
        elif start.startswith(b"\x1f\x8b"):
            with gzip.GzipFile(fileobj=file) as unzipped:
                members = _tar(path, cast(IO[bytes], unzipped), wanted)
        elif start[257:262] == b"ustar":
            members = _tar(path, file, wanted)
        else:
            raise BundleError(f"{path}: not a bundle: neither a folder nor a .tar.gz or .zip")
    except (
        tarfile.TarError,
        zipfile.BadZipFile,
        zlib.error,
        lzma.LZMAError,
        EOFError,
        NotImplementedError,
        RuntimeError,
        ValueError,
        gzip.BadGzipFile,
    ) as error:
        text = " ".join(str(error).split())[:120] or type(error).__name__
        raise BundleError(f"{path}: damaged archive ({text})") from error
    return members


def _shown(name: str) -> str:
    """A member's name for a message: escaped and short, as it can hold anything."""
    return ascii(name[:80])


def _safe_path(path: Path, name: str) -> PurePosixPath:
    """The member's relative path; refuses what leads outside."""
    relative = PurePosixPath(name)
    outside = relative.is_absolute() or ".." in relative.parts
    if outside or "\\" in name or "\0" in name or (len(name) > 1 and name[1] == ":"):
        raise BundleError(f"{path}: member {_shown(name)} leads outside the bundle")
    return relative


class _Members:
    """Collects members, each path once."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.found: dict[PurePosixPath, bytes | None] = {}

    def add(self, relative: PurePosixPath, data: bytes | None) -> None:
        if relative in self.found and not (data is None and self.found[relative] is None):
            raise BundleError(f"{self.path}: member {_shown(str(relative))} is there twice")
        self.found[relative] = data


class _Limited(io.RawIOBase):
    """A stream that refuses to give more than the limit, whatever one read asks for.

    ``tarfile`` reads extended headers in one piece of the size that they claim.
    """

    def __init__(self, file: IO[bytes], path: Path) -> None:
        super().__init__()
        self._file = file
        self._path = path
        self._left = MAX_TOTAL + 64 * MEBIBYTE

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        if size < 0 or size > self._left:
            raise BundleError(
                f"{self._path}: more than {MAX_TOTAL // MEBIBYTE} MiB in all (limit on all files)"
            )
        data = self._file.read(size)
        self._left -= len(data)
        return data


def _tar(path: Path, file: IO[bytes], wanted: Wanted) -> dict[PurePosixPath, bytes | None]:
    budget, members = _Budget(path), _Members(path)
    limited = _Limited(file, path)
    with tarfile.open(fileobj=limited, mode="r|", bufsize=64 * 1024) as archive:
        for member in archive:
            budget.member()
            relative = _safe_path(path, member.name)
            if member.isdir():
                if wanted(relative):
                    members.add(relative, None)
                continue
            if not member.isreg() or member.issparse():
                kind = "a link" if member.issym() or member.islnk() else "no regular file"
                raise BundleError(f"{path}: member {_shown(member.name)} is {kind}")
            if member.size > MAX_FILE:
                budget.size(_shown(member.name), member.size)
            if wanted(relative):
                content = archive.extractfile(member)
                assert content is not None
                members.add(relative, _read(content, _shown(member.name), budget))
            archive.members = []  # type: ignore[attr-defined] # the stream is read once; tarfile would keep every header
    return members.found


def _zip(path: Path, file: IO[bytes], wanted: Wanted) -> dict[PurePosixPath, bytes | None]:
    budget, members = _Budget(path), _Members(path)
    with zipfile.ZipFile(file) as archive:
        for member in archive.infolist():
            budget.member()
            relative = _safe_path(path, member.orig_filename)
            mode = member.external_attr >> 16
            if member.flag_bits & 0x1:
                raise BundleError(f"{path}: member {_shown(member.filename)} is encrypted")
            if stat.S_IFMT(mode) not in (0, stat.S_IFREG, stat.S_IFDIR):
                kind = "a link" if stat.S_ISLNK(mode) else "no regular file"
                raise BundleError(f"{path}: member {_shown(member.filename)} is {kind}")
            if not wanted(relative):
                continue
            if member.is_dir():
                members.add(relative, None)
                continue
            if member.file_size > MAX_FILE:
                budget.size(_shown(member.filename), member.file_size)
            with archive.open(member) as content:
                members.add(relative, _read(content, _shown(member.filename), budget))
    return members.found
