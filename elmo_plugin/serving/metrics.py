"""What a monitoring system reads from the server, in Prometheus' text format."""

from fastapi import FastAPI
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    ProcessCollector,
    generate_latest,
)
from starlette.responses import Response


def add_metrics(app: FastAPI) -> None:
    """Count the requests that `app.state.observe` is told about, and add the route `/metrics`."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)  # memory, processor time and open files
    requests = Counter("elmo_requests", "Requests, by path and status", ["path", "status"], registry=registry)
    seconds = Histogram("elmo_request_seconds", "Seconds until a request was answered", ["path"], registry=registry)
    Gauge("elmo_requests_in_progress", "Requests that are waiting or being answered", registry=registry).set_function(
        lambda: app.state.in_progress
    )

    def observe(path: str, status: int, duration: float) -> None:
        known = path if path == "/" or path in app.openapi()["paths"] else "other"  # a client may invent any number
        requests.labels(known, status).inc()
        seconds.labels(known).observe(duration)

    app.state.in_progress, app.state.observe = 0, observe

    @app.get("/metrics")
    async def metrics() -> Response:
        """Return counts and durations of requests, and the memory of the process, in Prometheus' text format."""
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)
