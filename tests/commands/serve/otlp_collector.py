"""A collector that prints what it receives: each request as a line of JSON, decoded by OpenTelemetry's own messages for Python.

Usage: otlp_collector.py [STATUS …]: the statuses of its first answers; 200 after them. The first line is its port."""

import http.server
import json
import sys

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

MESSAGES = {"/v1/logs": ExportLogsServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
statuses = [int(status) for status in sys.argv[1:]]


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        status = statuses.pop(0) if statuses else 200
        request = MessageToDict(MESSAGES[self.path].FromString(body))
        line = {"path": self.path, "status": status, "headers": dict(self.headers), "request": request}
        # In one write: requests come on several threads.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
