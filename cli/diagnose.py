"""``slicewatch diagnose``: one look, what is wrong, why, and what to type."""

from __future__ import annotations

from typing import Any

import click

from cli.looks import look_at_bundle, look_at_live
from cli.options import Command, read_settings, with_settings
from cli.report_text import report_lines
from cli.terminal import InputError, clean
from diagnosis.finding import SEVERITIES, Report


@with_settings("Where to look", "Pace", "Thresholds of the rules")
@click.command(cls=Command, short_help="One look: what is wrong, why, and what to type.")
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json"]),
    default="table",
    help="For people, or for scripts (schema slicewatch/v1). [table]",
)
@click.option(
    "--fail-on",
    type=click.Choice([*SEVERITIES, "never"]),
    default="critical",
    help="The least severe finding that makes the exit code 1. [critical]",
)
@click.option(
    "--why",
    metavar="NAME",
    help="The reasoning about one slice or placement group instead, by name or id, also when "
    "nothing is wrong with it.",
)
def command(form: str, fail_on: str, why: str | None, **given: Any) -> int:
    """Take one look, say what is wrong, why, and what to type next.

    Without --bundle it looks at the current kubeconfig context (or the cluster it runs in) and
    the Ray clusters found there; with --ray-address at a Ray cluster without Kubernetes. It only
    reads.

    The exit code is 0 when nothing at or above --fail-on is open, 1 when something is, and 2 when
    the input cannot be read. Standard output holds only the result.

    \b
    Examples:
      slicewatch diagnose
      slicewatch diagnose --bundle capture.tar.gz
      slicewatch diagnose --ray-address http://localhost:8265
      slicewatch diagnose --format json | jq '.findings[].summary'
      slicewatch diagnose --why v6e-group-0
    """
    settings = read_settings(given)
    if settings.bundle is not None:
        report = look_at_bundle(settings.bundle, settings).report
    else:
        report = look_at_live(settings).report
    if why is not None:
        for line in _reasons(report, why):
            click.echo(clean(line))
        return exit_code(report, fail_on)
    if form == "json":
        import msgspec

        from exporter.report_json import report_to_json

        encoded = msgspec.json.encode(report_to_json(report))
        click.echo(msgspec.json.format(encoded, indent=2).decode())
    else:
        for line in report_lines(report):
            click.echo(line)
    return exit_code(report, fail_on)


def _reasons(report: Report, name: str) -> list[str]:
    from diagnosis.why import why

    try:
        return why(report, name)
    except LookupError as error:
        raise InputError(str(error.args[0] if error.args else error)) from None


def exit_code(report: Report, fail_on: str) -> int:
    """1 when a finding is at least as severe as ``fail_on``, else 0."""
    if fail_on == "never":
        return 0
    counted = SEVERITIES[: SEVERITIES.index(fail_on) + 1]
    return int(any(finding.severity in counted for finding in report.findings))
