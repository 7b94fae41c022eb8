"""What all commands share: colours, safe text, one-line errors, progress on standard error."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

PROGRESS_AFTER = 1.0
"""Seconds before work says what it does: shorter work needs no word."""


class InputError(click.ClickException):
    """The input could not be read: one line on standard error, exit code 2."""

    exit_code = 2

    def format_message(self) -> str:
        return clean(self.message)


def clean(text: object) -> str:
    """``text`` on one line, without anything that a terminal would obey.

    Control characters, escapes and right-to-left overrides become ``�``; names are a cluster's
    own and may hold them.
    """
    return "".join(
        char if char.isprintable() else " " if char in "\n\t" else "\N{REPLACEMENT CHARACTER}"
        for char in str(text)
    )


def colours() -> bool:
    """Whether standard output is a terminal that wants colours (https://no-color.org)."""
    if os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb":
        return False
    return bool(os.environ.get("FORCE_COLOR")) or sys.stdout.isatty()


def style(text: str, **how: object) -> str:
    """``text`` with click's styles where colours are wanted."""
    return click.style(text, **how) if colours() else text  # type: ignore[arg-type]


def width() -> int:
    """Columns to wrap sentences at: a terminal's own, at most 100 (long lines read badly)."""
    return max(40, min(100, shutil.get_terminal_size((100, 24)).columns))


def wrap(text: str, indent: int) -> list[str]:
    """``text`` cleaned and wrapped, without the indent on the first line."""
    lines = textwrap.wrap(
        clean(text), width() - indent, break_long_words=False, break_on_hyphens=False
    )
    return [line if number == 0 else " " * indent + line for number, line in enumerate(lines)]


def say(text: str) -> None:
    """One line on standard error."""
    click.echo(text, err=True)


class _Later:
    """Says what is being done, but only once it has taken longer than ``PROGRESS_AFTER``."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._late = False
        self._timer = threading.Timer(PROGRESS_AFTER, self._begin)
        self._timer.daemon = True

    def start(self) -> None:
        self._timer.start()

    def stop(self) -> None:
        self._timer.cancel()

    def note(self, text: str) -> None:
        """The next thing that is done."""
        self._text = text
        if self._late:
            say(f"{clean(text)} …")

    def _begin(self) -> None:
        self._late = True
        say(f"{clean(self._text)} …")


@contextmanager
def progress(text: str) -> Iterator[Callable[[str], None]]:
    """Say ``text`` on standard error if the work inside takes longer than a second.

    What comes out takes further lines, which are said from then on.
    """
    later = _Later(text)
    later.start()
    try:
        yield later.note
    finally:
        later.stop()
