// Sends one log record, one span and one data point through the JavaScript SDK, plainly and gzipped.
// usage: node export.mjs http|proto|grpc ENDPOINT; the last line printed is "done"
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BatchLogRecordProcessor, LoggerProvider } from "@opentelemetry/sdk-logs";
import { MeterProvider, PeriodicExportingMetricReader } from "@opentelemetry/sdk-metrics";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

const [protocol, endpoint] = process.argv.slice(2);
const { OTLPLogExporter } = await import(`@opentelemetry/exporter-logs-otlp-${protocol}`);
const { OTLPTraceExporter } = await import(`@opentelemetry/exporter-trace-otlp-${protocol}`);
const { OTLPMetricExporter } = await import(`@opentelemetry/exporter-metrics-otlp-${protocol}`);

for (const compression of ["none", "gzip"]) {
  const resource = resourceFromAttributes({ "service.name": `js-${protocol}-${compression}` });
  const to = (signal) => ({ compression, url: protocol === "grpc" ? endpoint : `${endpoint}/v1/${signal}` });
  const logs = new LoggerProvider({ resource, processors: [new BatchLogRecordProcessor({ exporter: new OTLPLogExporter(to("logs")) })] });
  const spans = new BasicTracerProvider({ resource, spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter(to("traces")))] });
  const meters = resourceFromAttributes({ "service.name": `js-${protocol}-${compression}-metrics` });
  const metrics = new MeterProvider({ resource: meters, readers: [new PeriodicExportingMetricReader({ exporter: new OTLPMetricExporter(to("metrics")) })] });

  logs.getLogger("com.anthropic.claude_code.events").emit({
    body: "claude_code.tool_result",
    attributes: {
      "event.name": "tool_result", "session.id": "s1", "event.sequence": 7, tool_name: "Read", tool_use_id: "by-log",
      success: "false", error_type: "Error:ENOENT", tool_input: JSON.stringify({ file_path: "/srv/ä.txt" }),
    },
  });
  const span = spans.getTracer("gen_ai").startSpan("execute_tool run", {
    attributes: { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "run", "gen_ai.tool.call.id": "by-span" },
  });
  span.recordException(new TypeError("fetch failed"));
  span.setStatus({ code: 2, message: "fetch failed" });
  span.end();
  metrics.getMeter("gen_ai").createHistogram("gen_ai.execute_tool.duration").record(0.25, { "gen_ai.tool.name": "run" });
  for (const provider of [logs, spans, metrics]) await provider.shutdown();
}
console.log("done");
