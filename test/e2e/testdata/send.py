"""Send spans and metrics with the unmodified OpenTelemetry SDK and write what
was sent to a file, one JSON document, for the test to compare with what
Tailscope answers.

usage: send.py PROTOCOL ENDPOINT SPANS OUT      PROTOCOL is grpc or http
"""

import json
import math
import random
import sys
import time

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics import Counter, Histogram, UpDownCounter
from opentelemetry.sdk.metrics.export import AggregationTemporality, PeriodicExportingMetricReader
from opentelemetry.sdk.metrics.view import ExponentialBucketHistogramAggregation, View
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, set_span_in_context

protocol, endpoint, spans, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
if protocol == "grpc":
    from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

    common = {"insecure": True}
    traces_endpoint = metrics_endpoint = endpoint
else:
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter

    common = {"compression": Compression.Gzip}
    traces_endpoint, metrics_endpoint = endpoint + "/v1/traces", endpoint + "/v1/metrics"

rng = random.Random(7)
service = "python-" + protocol
resource = Resource.create({"service.name": service, "service.version": "2.0.1", "service.instance.id": "one"})
sent = {"service": service, "spans": [], "metrics": {}}


def seconds():
    """Two populations, as a cache in front of a slow store makes them."""
    if rng.random() < 0.7:
        return rng.lognormvariate(math.log(0.008), 0.3)
    return rng.lognormvariate(math.log(0.045), 0.2) * (20 if rng.random() < 0.02 else 1)


# Spans: a server span and a database child each, at times that lie up to
# two minutes back, so that they fall into several slots.
provider = TracerProvider(resource=resource)
processor = BatchSpanProcessor(
    OTLPSpanExporter(endpoint=traces_endpoint, **common), max_queue_size=2048, max_export_batch_size=512
)
provider.add_span_processor(processor)
tracer = provider.get_tracer("e2e")
now = time.time_ns()
for i in range(spans // 2):
    end = now - rng.randrange(120 * 10**9)
    tenant = "t%d" % min(rng.randrange(8), rng.randrange(8))
    duration, child_duration = int(seconds() * 1e9), int(seconds() * 1e8)
    failed = rng.random() < 0.03
    span = tracer.start_span(
        "GET /cart/{id}",
        kind=SpanKind.SERVER,
        start_time=end - duration,
        attributes={
            "http.request.method": "GET",
            "http.route": "/cart/{id}",
            "url.path": "/cart/%d" % i,
            "http.response.status_code": 500 if failed else 200,
            "tenant.id": tenant,
        },
    )
    child = tracer.start_span(
        "SELECT cart",
        context=set_span_in_context(span),
        kind=SpanKind.CLIENT,
        start_time=end - duration,
        attributes={
            "db.system.name": "postgresql",
            "db.query.text": "SELECT * FROM cart WHERE id = %d AND note = 'n%d'" % (i, i),
            "tenant.id": tenant,
        },
    )
    child.end(end_time=end - duration + child_duration)
    if failed:
        span.set_status(Status(StatusCode.ERROR))
    span.end(end_time=end)
    sent["spans"].append({"kind": "server", "tenant": tenant, "status": "error" if failed else "ok", "nanos": duration})
    sent["spans"].append({"kind": "client", "tenant": tenant, "status": "ok", "nanos": child_duration})
    if i % 500 == 499:  # the queue holds 2,048 spans and drops what does not fit
        assert processor.force_flush()
assert processor.force_flush()
provider.shutdown()

# Metrics, once as deltas and once as running totals.
for temporality in ("delta", "cumulative"):
    preferred = {}
    if temporality == "delta":
        preferred = {Counter: AggregationTemporality.DELTA, Histogram: AggregationTemporality.DELTA,
                     UpDownCounter: AggregationTemporality.CUMULATIVE}
    reader = PeriodicExportingMetricReader(
        OTLPMetricExporter(endpoint=metrics_endpoint, preferred_temporality=preferred, **common),
        export_interval_millis=3_600_000,  # exported when told to
    )
    name = "e2e." + protocol + "." + temporality
    meters = MeterProvider(
        resource=resource,
        metric_readers=[reader],
        views=[View(instrument_name=name + ".wait", aggregation=ExponentialBucketHistogramAggregation())],
    )
    meter = meters.get_meter("e2e")
    wait = meter.create_histogram(name + ".wait", unit="ms")
    size = meter.create_histogram(
        name + ".size", unit="By", explicit_bucket_boundaries_advisory=[100, 200, 400, 800, 1600, 3200, 6400]
    )
    orders = meter.create_counter(name + ".orders", unit="{order}")
    depth = meter.create_gauge(name + ".depth", unit="{item}")
    conns = meter.create_up_down_counter(name + ".conns", unit="{connection}")
    m = {"wait": [], "size": [], "orders": {"a": 0, "b": 0}, "depth": None, "conns": 0}
    for export in range(3):
        for _ in range(400):
            v = seconds() * 1000
            wait.record(v, {"tenant": "t1"})
            m["wait"].append(v / 1000)
            b = int(rng.lognormvariate(math.log(600), 0.8)) + 1
            size.record(b, {"tenant": "t1"})
            m["size"].append(b)
            tenant, n = rng.choice("ab"), rng.randrange(1, 5)
            orders.add(n, {"tenant": tenant})
            m["orders"][tenant] += n
            c = rng.choice([1, 1, -1])
            conns.add(c)
            m["conns"] += c
        m["depth"] = rng.randrange(1000)
        depth.set(m["depth"])
        assert meters.force_flush()
        time.sleep(0.05)
    meters.shutdown()
    sent["metrics"][temporality] = m

with open(out, "w") as f:
    json.dump(sent, f)
