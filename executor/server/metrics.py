"""What Prometheus reads at /metrics."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterator

from aiohttp import web
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from ..jobs.records import LANES, Job
from ..jobs.store import Jobs
from ..worker.messages import Finished
from ..worker.pool import Pool

SECONDS = (0.1, 0.3, 1, 3, 10, 30, 100, 300, 1000, 3000)


class Metrics:
    """Counts what happens. Workflows are told apart by `kind`, a digest of their node classes and sizes."""

    def __init__(self, jobs: Jobs, pool: Pool):
        self._registry = CollectorRegistry()
        self._registry.register(_Now(jobs, pool))
        self._waited = self._histogram("wait", "Seconds from submit to start")
        self._ran = self._histogram("run", "Seconds from start to end")
        self._ended = self._counter("jobs", "Jobs that have ended", "state")
        self._refused = self._counter("refused", "Prompts that were not taken", "reason")
        self._died = self._counter(
            "workers_died", "Worker processes that died while they had a job", "worker"
        )
        self._nodes = self._counter("nodes", "Nodes of finished runs", "result")

    def ended(self, job: Job) -> None:
        self._ended.labels(job.state).inc()
        if job.started is not None and job.ended is not None:
            self._waited.labels(job.kind).observe(max(0.0, job.started - job.created))
            self._ran.labels(job.kind).observe(job.ended - job.started)

    def finished(self, report: Finished) -> None:
        self._nodes.labels("executed").inc(len(report.executed))
        self._nodes.labels("cached").inc(len(report.cached))

    def refused(self, reason: str) -> None:
        self._refused.labels(reason).inc()

    def died(self, worker: str) -> None:
        self._died.labels(worker).inc()

    async def show(self, request: web.Request) -> web.Response:
        """GET /metrics"""
        text = generate_latest(self._registry).decode()
        return web.Response(text=text, content_type="text/plain", charset="utf-8")

    def _histogram(self, name: str, about: str) -> Histogram:
        return Histogram(
            f"slipstream_{name}_seconds", about, ["kind"], registry=self._registry, buckets=SECONDS
        )

    def _counter(self, name: str, about: str, label: str) -> Counter:
        return Counter(f"slipstream_{name}", about, [label], registry=self._registry)


class _Now(Collector):
    """What is so at the moment."""

    def __init__(self, jobs: Jobs, pool: Pool):
        self._jobs = jobs
        self._pool = pool

    def collect(self) -> Iterator[Metric]:
        waiting = GaugeMetricFamily("slipstream_waiting_jobs", "Jobs that wait", labels=["lane"])
        lanes = Count(job.lane for job in self._jobs.waiting)
        for lane in LANES:
            waiting.add_metric([lane], lanes[lane])
        yield waiting
        yield GaugeMetricFamily("slipstream_running_jobs", "Jobs that run", value=len(self._jobs.running))
        up = GaugeMetricFamily("slipstream_worker_up", "Whether a worker can work", labels=["worker"])
        busy = GaugeMetricFamily("slipstream_worker_busy", "Whether a worker has a job", labels=["worker"])
        memory = GaugeMetricFamily(
            "slipstream_device_memory_bytes", "Of a worker's device", labels=["worker"]
        )
        for worker in self._pool.workers:
            up.add_metric([worker.name], worker.about is not None)
            busy.add_metric([worker.name], worker.running is not None)
            if worker.about is not None and worker.about.memory:
                memory.add_metric([worker.name], worker.about.memory)
        yield from (up, busy, memory)
