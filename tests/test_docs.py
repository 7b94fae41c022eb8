"""The documentation is true: complete against the code, its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType
from urllib.parse import unquote

import pytest
from click.testing import CliRunner

import slicewatch
from diagnosis.catalogue import CODES
from exporter.families import FAMILIES, PREFIX

LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)[^)]*\)")
FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
MACHINE_PATHS = re.compile(r"/(?:work|tmp/w|root|home/\w+|Users)/|\.pyenv")


def documents(root: Path) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "*.md"],
        cwd=root,
        capture_output=True,
        text=True,
        timeout=30,
    )
    found = [root / line for line in listed.stdout.splitlines()]
    if not found:  # an archive without git
        found = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    return [path for path in found if path.exists()]


@pytest.fixture(scope="module")
def generate(root: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_generate", root / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def anchors(path: Path) -> set[str]:
    """The anchors that GitHub makes of a document's headings."""
    text = FENCE.sub("", path.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ +(.+?) *$", text, re.MULTILINE)
    plain = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", title).lower() for title in titles]
    return {re.sub(r"[^\w\- ]", "", title).replace(" ", "-") for title in plain}


def test_links_lead_somewhere(root: Path) -> None:
    wrong = []
    for path in documents(root):
        text = FENCE.sub("", path.read_text(encoding="utf-8"))
        for target in LINK.findall(text):
            if re.match(r"[a-z]+:", target):
                continue
            place, _, anchor = unquote(target).partition("#")
            goal = (path.parent / place).resolve() if place else path
            if not goal.exists():
                wrong.append(f"{path.relative_to(root)}: {target}: no such file")
            elif anchor and goal.suffix == ".md" and anchor not in anchors(goal):
                wrong.append(f"{path.relative_to(root)}: {target}: no such heading")
    assert not wrong, "\n".join(wrong)


def test_no_document_names_a_place_on_somebodys_machine(root: Path) -> None:
    wrong = [
        f"{path.relative_to(root)}: {match[0]}"
        for path in documents(root)
        for match in MACHINE_PATHS.finditer(path.read_text(encoding="utf-8"))
    ]
    assert not wrong, "\n".join(wrong)


def test_tables_say_what_the_code_says(generate: ModuleType) -> None:
    for path in generate.TABLES:
        text = path.read_text(encoding="utf-8")
        assert text == generate.with_table(path), f"{path.name} is behind: run `make docs`"


@pytest.mark.parametrize("code", sorted(CODES))
def test_every_code_has_a_runbook_that_names_its_causes(root: Path, code: str) -> None:
    info = CODES[code]
    runbook = root / "docs" / "runbooks" / f"{code}.md"
    assert runbook.exists(), f"docs/runbooks/{code}.md is missing"
    assert str(info.runbook).partition("#")[0].endswith(f"{code}.md")
    text = runbook.read_text(encoding="utf-8")
    assert code in text.splitlines()[0]
    missing = [cause for cause in info.causes if cause not in text]
    assert not missing, f"{runbook.name} does not explain {', '.join(missing)}"


def test_no_runbook_is_about_a_code_that_is_gone(root: Path) -> None:
    found = {path.stem for path in (root / "docs" / "runbooks").glob("*.md")}
    assert found - {"README", "Slicewatch"} <= set(CODES)


def test_every_metric_is_documented_with_its_labels(root: Path) -> None:
    lines = (root / "docs" / "metrics.md").read_text(encoding="utf-8").splitlines()
    for family in FAMILIES:
        rows = [
            line
            for line in lines
            if f"`{PREFIX}{family.name}`" in line or f"`{family.name}`" in line
        ]
        assert rows, f"docs/metrics.md does not name {PREFIX}{family.name}"
        assert any(all(label in row for label in family.labels) for row in rows), family.name


def test_no_document_names_a_metric_that_is_not_exported(root: Path) -> None:
    known = {PREFIX + family.name for family in FAMILIES}
    known |= {f"{name}{end}" for name in known for end in ("_bucket", "_count", "_sum")}
    wrong = [
        f"{path.relative_to(root)}: {name}"
        for path in documents(root)
        for name in re.findall(
            r"(?<![:\w/.-])slicewatch_[a-z_]+[a-z](?!\w)", path.read_text(encoding="utf-8")
        )
        if name not in known
    ]
    assert not wrong, "\n".join(wrong)


def commands_in(text: str) -> list[list[str]]:
    """Every `slicewatch COMMAND …` that a document tells to type, as words."""
    found = re.findall(r"(?:^|`|-m |\$ )slicewatch ([a-z]+[^`\n]*)", text, re.MULTILINE)
    return [line.split("  #")[0].split("#")[0].split() for line in found]


def test_commands_and_flags_in_documents_exist(root: Path) -> None:
    runner = CliRunner()
    help_of: dict[str, str] = {}
    wrong = []
    for path in documents(root):
        if path.name == "CHANGELOG.md":
            continue
        for words in commands_in(path.read_text(encoding="utf-8")):
            command = words[0]
            if command not in slicewatch.COMMANDS:
                continue  # a sentence, not a command
            if command not in help_of:
                result = runner.invoke(slicewatch.group, [command, "--help"])
                assert result.exit_code == 0, result.output
                help_of[command] = result.output
            wrong += [
                f"{path.relative_to(root)}: slicewatch {command} {word}"
                for word in words[1:]
                if word.startswith("--")
                and word.partition("=")[0].strip(".,;)") not in help_of[command]
            ]
    assert not wrong, "\n".join(wrong)


def test_make_targets_in_documents_exist(root: Path) -> None:
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.MULTILINE))
    for path in documents(root):
        for target in re.findall(
            r"(?:^|`)make ([a-z-]+)", path.read_text(encoding="utf-8"), re.MULTILINE
        ):
            assert target in targets, f"{path.relative_to(root)}: make {target}"


def test_the_changelog_has_a_place_for_what_comes(root: Path) -> None:
    assert "## [Unreleased]" in (root / "CHANGELOG.md").read_text(encoding="utf-8")
