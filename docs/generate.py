"""Writes the parts of the documentation that are tables of what the code says.

``make docs`` runs it; ``tests/test_docs.py`` fails when it would change something.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from pydantic import AliasChoices  # noqa: E402  # needs the path above

from diagnosis.catalogue import CODES  # noqa: E402  # needs the path above
from settings import Settings  # noqa: E402  # needs the path above


def cell(text: object) -> str:
    """Text that does not end a table's cell or start markup."""
    return " ".join(str(text).split()).replace("|", "\\|").replace("<", "&lt;")


def codes_table() -> str:
    """The finding codes for the README."""
    rows = ["| code | what is wrong | severity |", "|---|---|---|"]
    rows += [
        f"| [`{code}`](docs/runbooks/{code}.md) | {cell(info.title)} | {cell(info.severity)} |"
        for code, info in CODES.items()
    ]
    return "\n".join(rows)


def settings_table() -> str:
    """Every setting with its variable, its default and why the default is what it is."""
    rows = ["| variable | default | what and why |", "|---|---|---|"]
    for name, field in Settings.model_fields.items():
        default = field.get_default(call_default_factory=True)
        shown = "" if default in (None, "", (), []) else f"`{cell(default)}`"
        rows.append(f"| `{variable(name)}` | {shown} | {cell(field.description)} |")
    return "\n".join(rows)


def variable(name: str) -> str:
    """The environment variable of a setting: its first alias, or the prefix and its name."""
    alias = Settings.model_fields[name].validation_alias
    choices = alias.choices if isinstance(alias, AliasChoices) else []
    prefix = str(Settings.model_config.get("env_prefix", ""))
    return str(choices[0]) if choices else f"{prefix}{name.upper()}"


TABLES = {
    ROOT / "README.md": ("codes", codes_table),
    ROOT / "docs" / "settings.md": ("settings", settings_table),
}


def with_table(path: Path) -> str:
    """The file's text with its table as the code says now."""
    name, make = TABLES[path]
    text = path.read_text(encoding="utf-8")
    start, end = f"<!-- {name}: made by `make docs` -->", f"<!-- end of {name} -->"
    before, mark, rest = text.partition(start)
    _, close, after = rest.partition(end)
    if not mark or not close:
        raise SystemExit(f"{path} has no place for the table of {name}")
    return f"{before}{start}\n\n{make()}\n\n{end}{after}"


def main() -> None:
    """Write every table."""
    for path in TABLES:
        path.write_text(with_table(path), encoding="utf-8")


if __name__ == "__main__":
    main()
