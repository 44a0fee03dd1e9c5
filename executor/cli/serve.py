"""`slipstream serve`: the queue and its workers behind ComfyUI's API."""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import click

from .errors import Failure, UsageFailure
from .options import folder_options

LISTED = "nvidia-smi"


def _configured(context: click.Context, parameter: click.Parameter, path: Path | None) -> None:
    """--config: the file's entries become the defaults of the options with these names."""
    if path is None:
        return
    try:
        import tomllib
    except ModuleNotFoundError:  # Python 3.10
        import tomli as tomllib
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageFailure(f"--config {path}: cannot be read: {error}") from error
    options = {option.lstrip("-"): p.name for p in context.command.params for option in p.opts}
    if unknown := sorted(content.keys() - options.keys()):
        raise UsageFailure(f"--config {path}: there is no option {', '.join(unknown)}")
    context.default_map = {options[name]: value for name, value in content.items()}


@click.command(short_help="Serve ComfyUI's API: a queue with workers.")
@click.option(
    "--config",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    callback=_configured,
    is_eager=True,
    expose_value=False,
    metavar="FILE",
    help="A TOML file of values for these options: port = 8188.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="HOST", help="Where to listen.")
@click.option("--port", type=click.IntRange(0, 65535), default=8188, show_default=True, metavar="PORT")
@click.option(
    "--data",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("slipstream-data"),
    metavar="DIR",
    help="Where the queue and users' settings are kept.  [default: ./slipstream-data]",
)
@click.option(
    "--devices", default="auto", metavar="LIST", help="cpu, or cuda:0,cuda:1 ...; auto: all there are."
)
@click.option(
    "--workers", type=click.IntRange(min=1), default=1, metavar="N", help="Processes for each device."
)
@click.option("--dtype", default="auto", metavar="NAME", help="Number format of weights.")
@click.option(
    "--token",
    envvar="SLIPSTREAM_TOKEN",
    metavar="TOKEN",
    help="What clients have to know. Needed to listen anywhere but on this machine.",
)
@click.option(
    "--max-queue",
    type=click.IntRange(min=1),
    default=1000,
    show_default=True,
    metavar="N",
    help="Jobs that may wait.",
)
@click.option(
    "--max-per-client",
    type=click.IntRange(min=1),
    default=300,
    show_default=True,
    metavar="N",
    help="Jobs of one client that may wait.",
)
@click.option(
    "--max-upload",
    type=click.IntRange(min=1),
    default=100,
    show_default=True,
    metavar="MB",
    help="Largest request, in megabytes.",
)
@click.option(
    "--job-timeout",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="How long a job may run.  [default: no limit]",
)
@click.option(
    "--keep-days",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="DAYS",
    help="How long ended jobs are remembered.",
)
@click.option(
    "--keep-jobs",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    metavar="N",
    help="How many ended jobs are remembered.",
)
@click.option(
    "--delete-outputs",
    is_flag=True,
    help="With a job that is forgotten, delete the files that it saved, too.",
)
@click.option(
    "--cache",
    default="classic",
    metavar="MODE",
    show_default=True,
    help="Results that a worker keeps: classic, lru:N or none.",
)
@click.option(
    "--workflows",
    multiple=True,
    type=click.Path(path_type=Path, exists=True),
    metavar="PATH",
    help="Workflow files, or folders of them, that OpenAI's images API offers as models.  [default: those "
    "that come with Slipstream]",
)
@click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    show_default=True,
    help="A line of text or of JSON for each thing that is logged.",
)
@click.option("-v", "--verbose", count=True, help="Log more; -vv: every request.")
@folder_options
def serve(
    host: str,
    port: int,
    data: Path,
    devices: str,
    workers: int,
    dtype: str,
    token: str | None,
    max_queue: int,
    max_per_client: int,
    max_upload: int,
    job_timeout: float,
    keep_days: float,
    keep_jobs: int,
    delete_outputs: bool,
    cache: str,
    workflows: tuple[Path, ...],
    log_format: str,
    verbose: int,
) -> None:
    """Serve ComfyUI's HTTP and websocket API: its clients, and with the extra `canvas` its frontend, work as
    with ComfyUI. Jobs are kept on disk until they have ended; one process for each device runs them.

    \b
      slipstream serve
      slipstream serve --devices cuda:0,cuda:1 --models ~/ComfyUI/models
      slipstream serve --host 0.0.0.0 --token SECRET
    """
    from .. import logs
    from ..jobs.limits import Limits
    from ..jobs.records import Unusable
    from ..models import folders
    from ..server import security
    from ..server.app import Settings, application

    if token is None and not security.is_loopback(host):
        raise UsageFailure(f"--host {host}: others could reach it; a --token is needed")
    logs.configure(log_format, verbose)
    settings = Settings(
        data=data,
        workers=_workers(devices, workers, dtype=dtype, cache=cache, log_format=log_format, verbose=verbose),
        token=token,
        limits=Limits(max_queue, max_per_client),
        job_timeout=job_timeout,
        largest_body=max_upload << 20,
        keep_seconds=keep_days * 86400.0,
        keep_jobs=keep_jobs,
        delete_outputs=delete_outputs,
        workflows=workflows or (folders.BUNDLED.parent,),
    )
    try:
        asyncio.run(_run(application, settings, host, port, verbose))
    except (Unusable, OSError) as error:
        raise Failure(str(error)) from error


async def _run(application: Any, settings: Any, host: str, port: int, verbose: int) -> None:
    """Until SIGINT or SIGTERM."""
    import signal

    from aiohttp import web

    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    runner = web.AppRunner(
        await application(settings),
        access_log=logging.getLogger("aiohttp.access") if verbose > 1 else None,
        shutdown_timeout=2.0,
    )
    await runner.setup()
    try:
        site = web.TCPSite(runner, host, port)
        await site.start()
        shown = f"[{host}]" if ":" in host else host
        click.echo(f"Slipstream on http://{shown}:{runner.addresses[0][1]}/")
        await stopped.wait()
        click.echo("Stopping", err=True)
    finally:
        await runner.cleanup()


def _workers(devices: str, count: int, **options: Any) -> list[Any]:
    """The setup of each worker to be; `options` are the same for all."""
    from ..models import folders
    from ..worker.messages import Setup

    chosen = [name.strip() for name in devices.split(",") if name.strip()]
    if not chosen:
        raise UsageFailure("--devices: at least one is needed")
    names = [name for each in chosen for name in (_all_devices() if each == "auto" else [each])]
    if len(set(names)) < len(names):
        raise UsageFailure(f"--devices {devices}: one is named twice")
    current = folders.current()
    host = os.environ.get("SLIPSTREAM_HOST", "")
    return [
        Setup(
            name=name if count == 1 else f"{name}#{index + 1}",
            host=host,
            device=name,
            models=[str(root) for root in current.models],
            extra_model_paths=[str(file) for file in current.extra],
            input=str(folders.input_dir()),
            output=str(folders.output_dir()),
            temp=str(folders.temp_dir()),
            **options,
        )
        for name in names
        for index in range(count)
    ]


def _all_devices() -> list[str]:
    """Every CUDA device where there are any; torch is not loaded here to look for others."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        count = len([one for one in visible.split(",") if one.strip() not in ("", "-1")])
    elif shutil.which(LISTED):
        answer = subprocess.run([LISTED, "-L"], capture_output=True, text=True, timeout=20, check=False)
        count = answer.stdout.count("\nGPU ") + answer.stdout.startswith("GPU ")
    else:
        count = 0
    return [f"cuda:{index}" for index in range(count)] or ["auto"]
