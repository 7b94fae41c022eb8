from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from collectors import archive
from collectors.bundle import BundleError, read_bundle

NODES = b'{"result":true,"msg":"","data":{"result":{"total":0,"result":[]}}}'
MANIFEST = b'{"format":1,"captured_at":"2026-11-30T10:00:00Z"}'


def tar(path: Path, *members: tarfile.TarInfo | tuple[str, bytes]) -> Path:
    with tarfile.open(path, "w:gz") as file:
        for member in (("manifest.json", MANIFEST), ("ray/default/nodes.json", NODES), *members):
            if isinstance(member, tarfile.TarInfo):
                file.addfile(member)
            else:
                info = tarfile.TarInfo(member[0])
                info.size = len(member[1])
                file.addfile(info, io.BytesIO(member[1]))
    return path


def zipped(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("manifest.json", MANIFEST)
        file.writestr("ray/default/nodes.json", NODES)
        for name, data in members:
            file.writestr(name, data)
    return path


def link(name: str, target: str, kind: bytes = tarfile.SYMTYPE) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return info


def unix(name: str, mode: int) -> zipfile.ZipInfo:
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    return info


def test_the_examples_are_fine_without_what_makes_them_hostile(tmp_path: Path) -> None:
    assert len(read_bundle(tar(tmp_path / "a.tar.gz"))) == 1
    assert len(read_bundle(zipped(tmp_path / "a.zip"))) == 1


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (("../evil", b""), "outside"),
        (("/etc/passwd", b""), "outside"),
        (("ray/../../evil", b""), "outside"),
        (("ray\\..\\evil", b""), "outside"),
        (("C:/evil", b""), "outside"),
        (link("ray/default/tasks.json", "/etc/passwd"), "a link"),
        (link("other", "/etc/passwd"), "a link"),
        (link("ray/default/tasks.json", "manifest.json", tarfile.LNKTYPE), "a link"),
        (link("ray/default/tasks.json", "", tarfile.CHRTYPE), "no regular file"),
        (link("ray/default/tasks.json", "", tarfile.FIFOTYPE), "no regular file"),
        (("ray/default/nodes.json", NODES), "twice"),
        (("./ray/default/nodes.json", NODES), "twice"),
    ],
)
def test_hostile_tar_members(
    tmp_path: Path, member: tarfile.TarInfo | tuple[str, bytes], words: str
) -> None:
    with pytest.raises(BundleError, match=words) as caught:
        read_bundle(tar(tmp_path / "a.tar.gz", member))
    assert "\n" not in str(caught.value)
    assert not (tmp_path.parent / "evil").exists()


@pytest.mark.parametrize(
    ("member", "words"),
    [
        (("../evil", b""), "outside"),
        (("/etc/passwd", b""), "outside"),
        (("ray\\..\\evil", b""), "outside"),
        ((unix("ray/default/tasks.json", stat.S_IFLNK | 0o777), b"/etc/passwd"), "a link"),
        ((unix("ray/default/tasks.json", stat.S_IFCHR), b""), "no regular file"),
    ],
)
def test_hostile_zip_members(
    tmp_path: Path, member: tuple[str | zipfile.ZipInfo, bytes], words: str
) -> None:
    with pytest.raises(BundleError, match=words):
        read_bundle(zipped(tmp_path / "a.zip", member))


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_zip_member_that_is_there_twice(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="twice"):
        read_bundle(zipped(tmp_path / "a.zip", ("ray/default/nodes.json", NODES)))


def test_an_encrypted_zip(tmp_path: Path) -> None:
    path = zipped(tmp_path / "a.zip")
    data = bytearray(path.read_bytes())
    for marker, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(marker)
        while at >= 0:
            (flags,) = struct.unpack_from("<H", data, at + offset)
            struct.pack_into("<H", data, at + offset, flags | 1)
            at = data.find(marker, at + 4)
    path.write_bytes(data)
    with pytest.raises(BundleError, match="encrypted"):
        read_bundle(path)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-30])


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    data[len(data) // 2 + 1] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [_cut, _flip])
@pytest.mark.parametrize("make", [tar, zipped])
def test_damaged_archives(
    tmp_path: Path, make: Callable[[Path], Path], harm: Callable[[Path], None]
) -> None:
    path = make(tmp_path / "a")
    harm(path)
    with pytest.raises(BundleError) as caught:
        read_bundle(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("limit", "value", "words"),
    [
        ("MAX_FILE", 1000, "limit on one file"),
        ("MAX_TOTAL", 3000, "limit on all files"),
        ("MAX_MEMBERS", 3, "limit on the number"),
    ],
)
@pytest.mark.parametrize("kind", ["tar", "zip", "folder"])
def test_limits_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str, value: int, words: str, kind: str
) -> None:
    size = 2000 if limit == "MAX_FILE" else 900
    files = [(f"ray/c{number}/tasks.json", b" " * size) for number in range(5)]
    monkeypatch.setattr(archive, limit, value)
    if kind == "tar":
        path = tar(tmp_path / "a.tar.gz", *files)
    elif kind == "zip":
        path = zipped(tmp_path / "a.zip", *files)
    else:
        path = tmp_path / "bundle"
        for name, data in files:
            (path / name).parent.mkdir(parents=True)
            (path / name).write_bytes(data)
    with pytest.raises(BundleError, match=words):
        read_bundle(path)


def test_a_bomb_ends_soon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A gigabyte of zeros in a megabyte: stopped at the limit, in a member that nobody wants."""
    monkeypatch.setattr(archive, "MAX_TOTAL", 8 * archive.MEBIBYTE)
    info = tarfile.TarInfo("junk")
    info.size = 1 << 30
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        for _ in range(128):
            file.write(b"\0" * archive.MEBIBYTE)
    started = time.perf_counter()
    with pytest.raises(BundleError, match="limit"):
        read_bundle(path)
    assert time.perf_counter() - started < 5


def test_an_extended_header_of_any_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """tarfile reads those in one piece, of the size that they claim."""
    monkeypatch.setattr(archive, "MAX_TOTAL", 0)
    info = tarfile.TarInfo("header")
    info.type = tarfile.XHDTYPE
    info.size = 1 << 32
    path = tmp_path / "bomb.tar.gz"
    with gzip.open(path, "wb", compresslevel=1) as file:
        file.write(info.tobuf())
        for _ in range(70):
            file.write(b"\0" * archive.MEBIBYTE)
    with pytest.raises(BundleError, match="limit"):
        read_bundle(path)


def test_a_lying_zip(tmp_path: Path) -> None:
    """The size in the directory is smaller than what comes out."""
    path = zipped(tmp_path / "a.zip", ("ray/default/tasks.json", b" " * 5000))
    data = path.read_bytes().replace(struct.pack("<II", 5000, 5000), struct.pack("<II", 5000, 10))
    path.write_bytes(data)
    with pytest.raises(BundleError):
        read_bundle(path)


def test_folders_that_lead_elsewhere(tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "ray" / "default").mkdir(parents=True)
    (tmp_path / "secret").write_text("{}")
    place = bundle / "ray" / "default" / "nodes.json"
    place.symlink_to(tmp_path / "secret")
    with pytest.raises(BundleError, match="outside"):
        read_bundle(bundle)
    place.unlink()
    os.mkfifo(place)
    with pytest.raises(BundleError, match="no regular file"):
        read_bundle(bundle)
    place.unlink()
    (bundle / "kubernetes").symlink_to(bundle / "ray")
    with pytest.raises(BundleError, match="a link"):
        read_bundle(bundle)


@pytest.mark.parametrize("size", [0, 1, 10, 100_000_000])
def test_junk_is_one_line_and_soon(tmp_path: Path, size: int) -> None:
    path = tmp_path / "junk.tar.gz"
    with path.open("wb") as file:
        file.write(b"junk"[:size])
        file.truncate(size)
    started = time.perf_counter()
    with pytest.raises(BundleError, match=r"not a bundle|empty file"):
        read_bundle(path)
    assert time.perf_counter() - started < 1


def test_a_large_junk_file_in_a_bundle_is_a_source_that_is_damaged(tmp_path: Path) -> None:
    place = tmp_path / "ray" / "default"
    place.mkdir(parents=True)
    with (place / "tasks.json").open("wb") as file:
        file.truncate(100_000_000)
    (place / "nodes.json").write_bytes(NODES)
    (tmp_path / "manifest.json").write_bytes(MANIFEST)
    started = time.perf_counter()
    (look,) = read_bundle(tmp_path)
    assert time.perf_counter() - started < 3
    assert look.ray[0].source.status == "degraded"
    assert look.ray[0].tasks is None


@pytest.mark.parametrize("name", ["nothing", "folder", "fifo"])
def test_what_is_no_bundle(tmp_path: Path, name: str) -> None:
    (tmp_path / "folder" / "docs").mkdir(parents=True)
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(BundleError, match=r"no such|not a bundle|neither"):
        read_bundle(tmp_path / name)
