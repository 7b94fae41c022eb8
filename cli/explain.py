"""``slicewatch explain``: what a finding code means, its causes, its runbook."""

from __future__ import annotations

import difflib

import click

from cli.terminal import InputError, style, wrap


@click.command(short_help="What a finding code means, its causes, its runbook.")
@click.argument("code", required=False)
def command(code: str | None) -> None:
    """Say what a finding's CODE means, what can cause it and where its runbook is.

    Without CODE, list all codes.

    \b
    Examples:
      slicewatch explain
      slicewatch explain SliceIncomplete
    """
    from diagnosis.catalogue import CODES

    if code is None:
        widest = max(len(name) for name in CODES)
        for name, info in CODES.items():
            click.echo(f"{style(f'{name:<{widest}}', bold=True)}  {info.title}")
        return
    found = {name.lower(): name for name in CODES}.get(code.lower())
    if found is None:
        near = difflib.get_close_matches(code, CODES, n=3, cutoff=0.4)
        hint = f"did you mean {' or '.join(near)}?" if near else "'slicewatch explain' lists them"
        raise InputError(f"there is no finding code {code!r}: {hint}")
    info = CODES[found]
    click.echo(f"{style(found, bold=True)}: {info.title}")
    click.echo(f"About a {' or a '.join(kind.replace('_', ' ') for kind in info.subjects)}.")
    click.echo(f"Severity: {info.severity}")
    click.echo("")
    click.echo("\n".join(wrap(info.meaning, 0)))
    if info.causes:
        click.echo("\n" + style("Causes", bold=True))
        widest = max(len(cause) for cause in info.causes)
        for cause, meaning in info.causes.items():
            lines = wrap(meaning, widest + 4)
            click.echo(f"  {cause:<{widest}}  " + "\n".join(lines))
    if info.silent_on:
        click.echo("\n" + style("Not flagged", bold=True))
        click.echo("\n".join(wrap(info.silent_on, 0)))
    click.echo(f"\nRunbook: {info.runbook}")
