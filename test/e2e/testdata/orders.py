"""One of three services whose times are known: orders, in Python, with the
unmodified OpenTelemetry SDK. It serves PUT /orders/{id} until its standard
input is closed, then sends what is left and ends.

usage: orders.py ENDPOINT UNIT      UNIT is the length of one known sleep, in seconds

The port it listens on is the first line it writes; the last is how many seconds
longer than known its mails took in all.
"""

import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.propagate import extract
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, set_span_in_context

endpoint, unit = sys.argv[1], float(sys.argv[2])
provider = TracerProvider(resource=Resource.create({"service.name": "orders", "service.instance.id": "orders-1"}))
provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint, insecure=True), schedule_delay_millis=200))
tracer = provider.get_tracer("e2e")


overtime = []


def mail(span, begin):
    time.sleep(2.5 * unit)
    span.end()
    overtime.append(max(0, time.monotonic() - begin - 2.5 * unit))


class Orders(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self.path == "/warm":
            return self.answer()
        span = tracer.start_span(
            "PUT /orders/{id}",
            context=extract({name.lower(): value for name, value in self.headers.items()}),
            kind=SpanKind.SERVER,
            attributes={"http.request.method": "PUT", "http.route": "/orders/{id}", "tenant.id": "acme"},
        )
        inside = set_span_in_context(span)
        time.sleep(unit)  # nested: the service's own work

        db = tracer.start_span(
            "INSERT orders",
            context=inside,
            kind=SpanKind.CLIENT,
            attributes={"db.system.name": "postgresql", "db.query.text": "INSERT INTO orders (id) VALUES (%s)" % self.path[-1]},
        )
        time.sleep(unit)
        db.end()

        # Asynchronous: begins within the request and outlives it.
        begin = time.monotonic()
        threading.Thread(target=mail, args=(tracer.start_span("send mail", context=inside), begin)).start()
        time.sleep(unit)
        span.end()
        self.answer()

    def answer(self):
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Orders)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
server.shutdown()
provider.shutdown()
print("%.6f" % sum(overtime), flush=True)
