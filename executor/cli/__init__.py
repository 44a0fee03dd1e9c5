"""The `slipstream` command. Each command is a module; what is heavy is imported where it is needed."""

from __future__ import annotations

import signal
import sys

import click

from .bench import bench
from .convert import convert
from .inspect import inspect
from .lock import lock
from .models import models
from .nodes import nodes
from .run import run
from .serve import serve
from .submit import cancel, queue, submit

EXIT_CODES = """\b
Exit codes:
  0    done
  1    a benchmark fell short of its target
  2    the command line is wrong, or a value given with --set
  3    a file cannot be read as a workflow
  4    the workflow is not valid: an unknown node, a value out of range ...
  5    a node failed while running
  6    run --locked: models or versions are not those of the lock
  130  interrupted (Ctrl-C)
"""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}, epilog=EXIT_CODES
)
@click.version_option(package_name="slipstream", message="%(prog)s %(version)s")
def cli() -> None:
    """Run ComfyUI workflow files without a server or a browser."""


for command in (run, serve, submit, queue, cancel, inspect, convert, lock, nodes, models, bench):
    cli.add_command(command)


def main() -> None:
    # Until a run takes over, Ctrl-C ends the process at once, also amid a slow import.
    signal.signal(signal.SIGINT, lambda *_: sys.exit(130))
    cli(prog_name="slipstream")
