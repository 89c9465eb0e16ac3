"""A collector that prints what it receives: each request as a line of JSON, decoded by OpenTelemetry's own messages for Python.

Usage: otlp_collector.py [STATUS …]: the statuses of its first answers; 200 after them. 'partial' accepts a request and rejects a
part of it. The first line is its port."""

import http.server
import json
import sys

from google.protobuf.json_format import MessageToDict
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest, ExportMetricsServiceResponse

MESSAGES = {"/v1/logs": ExportLogsServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
statuses = sys.argv[1:]


def rejection(path):
    """An answer that has accepted the rest."""
    if path == "/v1/logs":
        answer = ExportLogsServiceResponse()
        answer.partial_success.rejected_log_records = 2
    else:
        answer = ExportMetricsServiceResponse()
        answer.partial_success.rejected_data_points = 3
    answer.partial_success.error_message = "too old"
    return answer.SerializeToString()


class Collector(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        wanted = statuses.pop(0) if statuses else "200"
        status, answer = (200, rejection(self.path)) if wanted == "partial" else (int(wanted), b"")
        request = MessageToDict(MESSAGES[self.path].FromString(body))
        line = {"path": self.path, "status": status, "headers": dict(self.headers), "request": request}
        # In one write: requests come on several threads.
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
        self.send_response(status)
        self.send_header("Content-Type", "application/x-protobuf")
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
print(server.server_address[1], flush=True)
server.serve_forever()
