"""Receives OTLP over HTTP and decodes it with the official protobuf classes of OpenTelemetry.

Usage: otlp_receiver.py PORT FILE. Appends one JSON object a line to FILE: {"spans": [...]}, {"metrics": [...]} or {"logs": [...]}.
What does not decode is answered 400 and written as {"error": ...}.
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)


def plain(attributes):
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


def spans(body):
    message = ExportTraceServiceRequest.FromString(body)
    for resource in message.resource_spans:
        for scope in resource.scope_spans:
            for span in scope.spans:
                yield {
                    "service": plain(resource.resource.attributes)["service.name"],
                    "trace_id": span.trace_id.hex(),
                    "span_id": span.span_id.hex(),
                    "parent_id": span.parent_span_id.hex(),
                    "name": span.name,
                    "kind": span.kind,
                    "took": span.end_time_unix_nano - span.start_time_unix_nano,
                    "attributes": plain(span.attributes),
                }


def metrics(body):
    message = ExportMetricsServiceRequest.FromString(body)
    for resource in message.resource_metrics:
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                kind = metric.WhichOneof("data")
                points = getattr(metric, kind).data_points
                yield {
                    "name": metric.name,
                    "kind": kind,
                    "points": [
                        {
                            "attributes": plain(point.attributes),
                            "value": point.count if kind == "histogram" else point.as_double,
                            "buckets": list(point.bucket_counts) if kind == "histogram" else [],
                            "bounds": len(point.explicit_bounds) if kind == "histogram" else 0,
                        }
                        for point in points
                    ],
                }


def logs(body):
    message = ExportLogsServiceRequest.FromString(body)
    for resource in message.resource_logs:
        for scope in resource.scope_logs:
            for record in scope.log_records:
                yield {
                    "service": plain(resource.resource.attributes)["service.name"],
                    "event": record.event_name,
                    "severity": [record.severity_number, record.severity_text],
                    "body": record.body.string_value,
                    "trace_id": record.trace_id.hex(),
                    "span_id": record.span_id.hex(),
                    "took": record.observed_time_unix_nano - record.time_unix_nano,
                    "attributes": plain(record.attributes),
                }


FORMS = {
    "/v1/logs": ("logs", logs, ExportLogsServiceResponse),
    "/v1/traces": ("spans", spans, ExportTraceServiceResponse),
    "/v1/metrics": ("metrics", metrics, ExportMetricsServiceResponse),
}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        try:
            assert self.headers["content-type"] == "application/x-protobuf", self.headers["content-type"]
            name, decode, response = FORMS[self.path]
            line, status, answer = {name: list(decode(body))}, 200, response().SerializeToString()
        except Exception as error:
            line, status, answer = {"error": repr(error)}, 400, b""
        with open(sys.argv[2], "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")
        self.send_response(status)
        self.send_header("content-type", "application/x-protobuf")
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


HTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
