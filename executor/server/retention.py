"""Forgetting jobs that ended long ago, and with them the files that they left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..jobs.records import Job
from ..jobs.store import Jobs
from ..models import folders

log = logging.getLogger(__name__)

EVERY = 60.0  # seconds


async def keep_retiring(jobs: Jobs, *, keep_seconds: float, keep_jobs: int, delete_outputs: bool) -> None:
    """Until cancelled."""
    while True:
        await retire(jobs, keep_seconds=keep_seconds, keep_jobs=keep_jobs, delete_outputs=delete_outputs)
        await asyncio.sleep(EVERY)


async def retire(jobs: Jobs, *, keep_seconds: float, keep_jobs: int, delete_outputs: bool) -> None:
    """Forget jobs by age and number. Their temporary files go too, and with `delete_outputs` what they saved;
    a file that a remaining job shows as well (a result from the cache) stays until that job goes."""
    old = await jobs.retire(older_than=keep_seconds, keep=keep_jobs)
    kinds = ("temp", "output") if delete_outputs else ("temp",)
    deleted = 0
    for path in {path for job in old for path in _files(job, kinds)}:
        if not await jobs.shows(path.name):
            deleted += await asyncio.to_thread(_delete, path)
    if old:
        log.info("forgot %d jobs that ended long ago, and deleted %d of their files", len(old), deleted)


def _files(job: Job, kinds: tuple[str, ...]) -> Iterator[Path]:
    """The files among what its nodes showed; of those kinds."""
    for shown in (job.results or {}).values():
        for entries in shown.values() if isinstance(shown, dict) else ():
            for entry in entries if isinstance(entries, list) else ():
                if isinstance(entry, dict) and entry.get("type") in kinds and (path := _path(entry)):
                    yield path


def _path(entry: dict[str, Any]) -> Path | None:
    name, subfolder = entry.get("filename"), entry.get("subfolder") or ""
    if not isinstance(name, str) or not name or not isinstance(subfolder, str):
        return None
    try:
        return folders.contained(folders.by_type(entry["type"]), str(Path(subfolder) / name))
    except folders.OutsideFolder:
        return None


def _delete(path: Path) -> bool:
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        log.warning("%s cannot be deleted: %s", path, error)
        return False
    return True
