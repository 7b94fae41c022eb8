"""The command line as a stranger meets it: help, results, exit codes, errors, start-up."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

import slicewatch
from cli.options import HIDDEN, REPEATED
from diagnosis.catalogue import CODES
from settings import Settings

COMMANDS = list(slicewatch.COMMANDS)
FOLDER = Path(__file__).parent / "bundles"
BUNDLES = sorted(path.name for path in FOLDER.iterdir() if (path / "expect.json").exists())


@pytest.fixture(autouse=True)
def _no_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No kubeconfig and no settings of whoever runs the tests."""
    for name in list(os.environ):
        if name.startswith(("SLICEWATCH_", "RAY_AUTH", "KUBE")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_COLOR", "1")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = slicewatch.run(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def one_line(err: str) -> bool:
    return err.count("\n") == 1 and "Traceback" not in err


class TestHelp:
    def test_the_top_names_every_command(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys, "--help")
        assert (code, err) == (0, "")
        for name in COMMANDS:
            assert f"  {name}" in out

    @pytest.mark.parametrize("name", COMMANDS)
    def test_each_command_has_an_example(
        self, capsys: pytest.CaptureFixture[str], name: str
    ) -> None:
        code, out, _ = run(capsys, name, "--help")
        assert code == 0
        assert f"  slicewatch {name}" in out.partition("Examples:")[2]

    def test_every_setting_is_a_flag(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(capsys, "serve", "--help")
        for name in set(Settings.model_fields) - HIDDEN:
            assert f"--{REPEATED.get(name, name.replace('_', '-'))}" in out

    def test_version(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, "--version")
        assert code == 0
        assert out.startswith("slicewatch 0.")


class TestErrors:
    @pytest.mark.parametrize(
        "arguments",
        [
            ("nope",),
            ("diagnose", "--nope"),
            ("diagnose", "--format", "xml"),
            ("diagnose", "--poll-interval", "fast"),
            ("diagnose", "--poll-interval", "0"),
            ("diagnose", "--bundle", "/nowhere/at/all"),
            ("diagnose", "--ray-address", "ray://head:10001"),
            ("diagnose", "--kubernetes", "off"),
            ("diagnose", "--ray-address", "http://127.0.0.1:1"),
            ("serve", "--port", "99999999"),
            ("serve", "--bundle", "/nowhere/at/all"),
            ("topology", "v6e"),
            ("topology", "v6e", "5x5"),
            ("topology", "v99", "4x4"),
            ("topology", "v6e", "4x4", "--chips-per-host", "3"),
            ("explain", "SliceIncomplet"),
            ("capture",),
        ],
    )
    def test_exit_2_and_one_line(
        self, capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
    ) -> None:
        code, out, err = run(capsys, *arguments)
        assert (code, out) == (2, "")
        assert one_line(err), err

    def test_no_command_shows_the_help(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, err = run(capsys)
        assert (code, out) == (2, "")
        assert "Commands:" in err

    def test_a_secret_is_not_repeated(self, capsys: pytest.CaptureFixture[str]) -> None:
        address = "http://me:s3cret@head:8265"
        _, _, err = run(capsys, "diagnose", "--ray-address", address)
        assert "s3cret" not in err
        assert one_line(err)

    def test_a_hostile_bundle_name_is_harmless(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, _, err = run(capsys, "diagnose", "--bundle", "/x\x1b[31m\ny")
        assert "\x1b" not in err
        assert one_line(err)

    def test_a_bug_is_one_line_too(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def boom(*_: object, **__: object) -> None:
            raise KeyError("what")

        monkeypatch.setattr(slicewatch.group, "main", boom)
        code, _, err = run(capsys, "diagnose")
        assert code == 2
        assert one_line(err)
        assert "unexpected KeyError" in err

    def test_a_taken_port_is_named(self, capsys: pytest.CaptureFixture[str], bundles: Path) -> None:
        import socket

        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = str(taken.getsockname()[1])
            bundle = str(bundles / "healthy_idle")
            code, _, err = run(capsys, "serve", "--headless", "--bundle", bundle, "--port", port)
        assert code == 2
        assert one_line(err)
        assert f"port {port}" in err


class TestDiagnose:
    @pytest.mark.parametrize("name", BUNDLES)
    def test_bundles_have_the_right_exit_code(
        self, capsys: pytest.CaptureFixture[str], bundles: Path, name: str
    ) -> None:
        expected = json.loads((bundles / name / "expect.json").read_text())
        bundle = str(bundles / name)
        code, out, _ = run(capsys, "diagnose", "--bundle", bundle, "--format", "json")
        report = json.loads(out)
        assert report["schema"] == "slicewatch/v1"
        assert code == expected["exit"], report["findings"]
        assert run(capsys, "diagnose", "--bundle", bundle, "--fail-on", "never")[0] == 0

    def test_a_healthy_cluster_is_one_line(
        self, capsys: pytest.CaptureFixture[str], bundles: Path
    ) -> None:
        code, out, err = run(capsys, "diagnose", "--bundle", str(bundles / "healthy_idle"))
        assert (code, err) == (0, "")
        assert out == "All 2 slices are whole: 2 idle. Nothing is wrong.\n"

    def test_a_broken_one_says_what_to_type(
        self, capsys: pytest.CaptureFixture[str], bundles: Path
    ) -> None:
        code, out, _ = run(capsys, "diagnose", "--bundle", str(bundles / "real_host_lost"))
        assert code == 1
        assert out.index("CRITICAL") < out.index("Why") < out.index("Next") < out.index("Slices")

    def test_fail_on(self, capsys: pytest.CaptureFixture[str], bundles: Path) -> None:
        bundle = str(bundles / "truncated_state_api")
        _, out, _ = run(capsys, "diagnose", "--bundle", bundle, "--format", "json")
        worst = {item["severity"] for item in json.loads(out)["findings"]}
        assert "critical" not in worst
        for level, code in (("critical", 0), ("warning", 1), ("info", 1), ("never", 0)):
            assert run(capsys, "diagnose", "--bundle", bundle, "--fail-on", level)[0] == code

    @pytest.mark.parametrize("content", [b"", b"{", b"\x00\xff", b"PK\x03\x04broken"])
    def test_what_is_no_bundle(
        self, capsys: pytest.CaptureFixture[str], tmp_path: Path, content: bytes
    ) -> None:
        path = tmp_path / "x.tar.gz"
        path.write_bytes(content)
        code, out, err = run(capsys, "diagnose", "--bundle", str(path))
        assert (code, out) == (2, "")
        assert one_line(err), err

    def test_settings_come_from_the_environment_too(
        self,
        capsys: pytest.CaptureFixture[str],
        monkeypatch: pytest.MonkeyPatch,
        bundles: Path,
    ) -> None:
        monkeypatch.setenv("SLICEWATCH_BUNDLE", str(bundles / "healthy_idle"))
        assert run(capsys, "diagnose")[0] == 0


class TestTopology:
    def test_json_is_the_contract(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, "topology", "v6e", "4x4", "--format", "json")
        assert code == 0
        assert json.loads(out) == {
            "generation": "v6e",
            "topology": "4x4",
            "chips": 16,
            "hosts": 4,
            "chips_per_host": 4,
            "host_bounds": [2, 2, 1],
            "wrap": [False, False, False],
            "pod_type": "v6e-16",
            "accelerator": "tpu-v6e-slice",
            "verified": True,
        }

    def test_the_table(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(capsys, "topology", "v5p", "4x4x8")
        assert "2 x 2 x 8 hosts (x, y, z)" in out
        assert "wrap-around  x, y, z" in out
        assert "cloud.google.com/gke-tpu-topology: 4x4x8" in out
        assert 'slice_placement_group(topology="4x4x8", accelerator_version="v5p")' in out

    def test_an_ambiguous_shape_says_so(self, capsys: pytest.CaptureFixture[str]) -> None:
        _, out, _ = run(capsys, "topology", "v6e", "2x4")
        assert "--chips-per-host" in out
        _, out, _ = run(capsys, "topology", "v6e", "2x4", "--chips-per-host", "4")
        assert "8 chips on 2 hosts of 4" in out

    def test_a_shape_that_is_none_names_near_ones(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, _, err = run(capsys, "topology", "v6e", "4x5")
        assert code == 2
        assert "nearest: " in err
        assert "4x4" in err


class TestWhy:
    """The reasoning about one object, also when nothing is wrong with it."""

    @pytest.mark.parametrize(
        ("bundle", "name", "code", "says"),
        [
            ("healthy_running", "v6e-group-1", 0, "whole: 4 of 4 hosts."),
            ("lost_host_livelocks_scheduler", "v6e-group-0", 1, "not whole: 3 of 4 hosts."),
            ("lost_host_livelocks_scheduler", "train", 1, "3 of 4 bundles are on live hosts"),
        ],
    )
    def test_a_slice_or_a_group(
        self, capsys: pytest.CaptureFixture[str], bundle: str, name: str, code: int, says: str
    ) -> None:
        got, out, _ = run(capsys, "diagnose", "--bundle", str(FOLDER / bundle), "--why", name)
        assert got == code
        assert says in out

    def test_a_name_that_nothing_has(self, capsys: pytest.CaptureFixture[str]) -> None:
        bundle = str(FOLDER / "healthy_idle")
        code, out, err = run(capsys, "diagnose", "--bundle", bundle, "--why", "v6e-group-9")
        assert code == 2
        assert out == ""
        assert one_line(err)


class TestExplain:
    def test_without_a_code_it_lists_all(self, capsys: pytest.CaptureFixture[str]) -> None:
        code, out, _ = run(capsys, "explain")
        assert code == 0
        assert [line.split()[0] for line in out.splitlines()] == list(CODES)

    @pytest.mark.parametrize("code", CODES)
    def test_each_code(self, capsys: pytest.CaptureFixture[str], code: str) -> None:
        result, out, _ = run(capsys, "explain", code.lower())
        assert result == 0
        assert out.startswith(code)
        assert CODES[code].runbook in out
        for cause in CODES[code].causes:
            assert f"  {cause} " in out

    def test_a_near_miss_is_guessed(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert "SliceIncomplete" in run(capsys, "explain", "SliceIncomplet")[2]


def subprocess_run(root: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments], cwd=root, capture_output=True, text=True, timeout=60
    )


@pytest.mark.parametrize(
    "arguments", [["topology", "v6e", "4x4"], ["explain", "PlacementSplit"], ["explain"]]
)
def test_small_commands_load_nothing_heavy(root: Path, arguments: list[str]) -> None:
    code = (
        "import slicewatch, sys\n"
        f"slicewatch.run({arguments!r})\n"
        "print(sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr)\n"
    )
    loaded = subprocess_run(root, "-c", code).stderr
    for name in ("streamlit", "ray", "pandas", "plotly", "numpy", "kubernetes", "pydantic"):
        assert f"'{name}'" not in loaded


def test_a_small_bundle_takes_under_a_second_and_a_half(root: Path, bundles: Path) -> None:
    arguments = ("-m", "slicewatch", "diagnose", "--bundle", str(bundles / "healthy_running"))
    subprocess_run(root, *arguments)  # the first run compiles
    best = min(_timed(root, arguments) for _ in range(3))
    assert best < 1.5


def _timed(root: Path, arguments: tuple[str, ...]) -> float:
    """Seconds of processor time, which other work on the machine does not lengthen."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert subprocess_run(root, *arguments).returncode == 0
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def test_a_reader_that_goes_away_is_no_error(root: Path) -> None:
    command = f"{sys.executable} -m slicewatch explain | true"
    result = subprocess.run(
        ["bash", "-c", command], cwd=root, capture_output=True, text=True, timeout=60
    )
    assert "Traceback" not in result.stderr
    assert "BrokenPipe" not in result.stderr
