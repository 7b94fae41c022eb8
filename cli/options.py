"""Every setting as a flag: made from ``settings.Settings``, so the two can never differ."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import click
from pydantic import SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from cli.terminal import InputError
from diagnosis.thresholds import Thresholds
from settings import Settings, explain_error

REPEATED = {"namespaces": "namespace", "ray_addresses": "ray-address"}
"""Settings that hold several values, by the flag that is given once a value."""

HIDDEN = {"demo"}
"""Set by commands, not by people."""

_SECTIONS: dict[str, tuple[str, ...]] = {
    "Where to look": (
        *(
            "bundle",
            "kubernetes",
            "kubernetes_watch",
            "kubeconfig",
            "kube_context",
            "namespaces",
            "ray_addresses",
        ),
        *("ray_token", "ray_token_file", "ray_ca_file", "prometheus_url"),
    ),
    "Pace": ("poll_interval", "request_timeout", "max_body_mebibytes"),
    "Serving": ("host", "port", "api_token", "log_level"),
    "Links out": ("link_ray", "link_console", "link_grafana"),
    "History": ("history", "history_path", "history_url", "history_days", "history_mebibytes"),
    "Thresholds of the rules": Thresholds.__struct_fields__,
}


class SettingOption(click.Option):
    """A flag that stands for one setting; ``section`` groups it in the help."""

    def __init__(self, *args: Any, setting: str, section: str, **kwargs: Any) -> None:
        self.setting = setting
        self.section = section
        super().__init__(*args, **kwargs)


class Command(click.Command):
    """A command whose help shows its own options first and the settings in sections."""

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        sections: dict[str, list[tuple[str, str]]] = {"Options": []}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx)
            if record is None:
                continue
            name = param.section if isinstance(param, SettingOption) else "Options"
            sections.setdefault(name, []).append(record)
        for name, records in sections.items():
            if records:
                title = name if name == "Options" else f"{name} (also SLICEWATCH_… variables)"
                with formatter.section(title):
                    formatter.write_dl(records)


def with_settings(
    *sections: str, without: tuple[str, ...] = ()
) -> Callable[[click.Command], click.Command]:
    """Add the flags of these sections (all without any) to a command."""

    def add(command: click.Command) -> click.Command:
        for section in sections or _SECTIONS:
            for name in _SECTIONS[section]:
                if name in Settings.model_fields and name not in without:
                    command.params.append(_option(name, Settings.model_fields[name], section))
        return command

    return add


def _option(name: str, info: FieldInfo, section: str) -> SettingOption:
    # No default here: a flag that is not given must not hide the environment variable.
    flag = REPEATED.get(name, name.replace("_", "-"))
    return SettingOption(
        [f"--{flag}", f"setting_{name}"],
        type=_type(info.annotation),
        multiple=name in REPEATED,
        help=_help(name, info),
        metavar=_metavar(flag, info),
        setting=name,
        section=section,
    )


def _type(annotation: Any) -> Any:
    if get_origin(annotation) is Literal:
        return click.Choice(get_args(annotation))
    for plain in (float, int):
        if annotation is plain:
            return plain
    return str


def _metavar(flag: str, info: FieldInfo) -> str | None:
    if get_origin(info.annotation) is Literal:
        return None
    if info.annotation is int or flag.endswith(("-second", "-cycle", "-polls")):
        return "N"
    if info.annotation is float:
        return "SECONDS"
    last = flag.rsplit("-", 1)[-1]
    if flag.startswith("link-"):
        return "URL"
    return {"address": "URL", "file": "PATH", "bundle": "PATH", "kubeconfig": "PATH"}.get(
        last, last.upper()
    )


def _help(name: str, info: FieldInfo) -> str:
    text = info.description or ""
    if name in REPEATED:
        text = text.replace("comma-separated URLs", "repeatable, URLs").replace(
            "comma-separated", "repeatable"
        )
    if _is_secret(info):
        text += " Others on the machine can read a command line: prefer the variable."
    default = info.default
    shown = default is not PydanticUndefined and default not in (None, (), "")
    return (
        f"{text} [{default:g}]"
        if shown and isinstance(default, float)
        else (f"{text} [{default}]" if shown else text)
    )


def _is_secret(info: FieldInfo) -> bool:
    return info.annotation is SecretStr or SecretStr in get_args(info.annotation)


def read_settings(given: dict[str, Any], **fixed: object) -> Settings:
    """Settings from flags (``given``, as click hands them over), then the environment.

    ``fixed`` are those that the command itself decides. Raises :class:`InputError` with one line
    that names what is wrong; values are not repeated, as they may be secrets.
    """
    chosen: dict[str, Any] = {
        key.removeprefix("setting_"): value
        for key, value in given.items()
        if key.startswith("setting_") and value is not None and value != ()
    }
    try:
        return Settings(**{**chosen, **fixed})
    except ValidationError as error:
        raise InputError(explain_error(error)) from None


def existing(path: Path) -> Path:
    """``path``, or an :class:`InputError` when nothing is there."""
    if not path.exists():
        raise InputError(f"no such file or folder: {path}")
    return path
