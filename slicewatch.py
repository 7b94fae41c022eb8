"""The command line. Each command lives in its own module of ``cli`` and is imported when called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

import click

COMMANDS: dict[str, str] = {
    "demo": "A real local Ray cluster with TPU-labelled hosts, and the dashboard on it.",
    "serve": "The dashboard, /metrics and /api on your cluster, in one process.",
    "diagnose": "One look: what is wrong, why, and what to type.",
    "capture": "Write what the APIs say to a bundle, to send or to keep.",
    "topology": "What a slice of a shape is: chips, hosts, wiring.",
    "explain": "What a finding code means, its causes, its runbook.",
}
"""In the order that a newcomer wants them; said here so that ``--help`` imports no command."""


class _Lazy(click.Group):
    """A group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command = importlib.import_module(f"cli.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


def version() -> str:
    """The installed version, or the one of this folder's pyproject.toml."""
    from cli.version import version as read

    return read()


def _print_version(ctx: click.Context, param: click.Parameter, value: bool) -> None:
    if value:
        click.echo(f"slicewatch {version()}")
        ctx.exit()


@click.group(
    cls=_Lazy,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Print the version and exit.",
)
def group() -> None:
    """Says which Ray TPU slices and reservations are hung, split or incomplete, and why.

    It finds Kubernetes through your kubeconfig (or its own account in a cluster) and Ray through
    Kubernetes, and only ever reads.

    \b
    Examples:
      slicewatch demo                              try it without a cluster
      slicewatch diagnose                          one look at the current kubeconfig context
      slicewatch diagnose --bundle capture.tar.gz  the same on what a colleague sent
      slicewatch serve                             the dashboard on http://localhost:8501
    """


def run(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; errors are one line on standard error."""
    from cli.terminal import clean, say

    try:
        result = group.main(
            args=None if arguments is None else list(arguments),
            prog_name="slicewatch",
            standalone_mode=False,
        )
        sys.stdout.flush()
    except click.exceptions.NoArgsIsHelpError as error:
        say(error.format_message())
        return 2
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "slicewatch"
        say(f"{path}: {clean(error.format_message())} (see: {path} --help)")
        return 2
    except click.ClickException as error:
        say(f"slicewatch: {clean(error.format_message())}")
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        say("stopped")
        return 130
    except BrokenPipeError:
        # The reader has gone (`| head`); a second error at exit would only confuse.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except Exception as error:  # no traceback for whoever only wanted an answer
        if os.environ.get("SLICEWATCH_DEBUG"):
            raise
        say(
            f"slicewatch: unexpected {type(error).__name__}: {clean(error)} "
            "(SLICEWATCH_DEBUG=1 shows where)"
        )
        return 2
    return result if isinstance(result, int) else 0


def main() -> None:
    """Entry point of the ``slicewatch`` script."""
    sys.exit(run())


if __name__ == "__main__":
    main()
