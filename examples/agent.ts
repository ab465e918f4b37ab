// One failed tool call, as a span of OpenTelemetry's GenAI conventions, with the JavaScript SDK:
//
//   npm install @opentelemetry/sdk-trace-base @opentelemetry/resources @opentelemetry/exporter-trace-otlp-http
//   node agent.ts http://127.0.0.1:4318        (Node 22.18 or newer runs TypeScript as it is)

import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import { BasicTracerProvider, BatchSpanProcessor } from "@opentelemetry/sdk-trace-base";

const collector: string = process.argv[2] ?? "http://127.0.0.1:4318";
const provider = new BasicTracerProvider({
  resource: resourceFromAttributes({ "service.name": "typescript-agent" }),
  spanProcessors: [new BatchSpanProcessor(new OTLPTraceExporter({ url: `${collector}/v1/traces` }))],
});

const call = { name: "read_file", id: "call_1", arguments: { path: "src/nowhere.ts" } };
const span = provider.getTracer("my-agent").startSpan(`execute_tool ${call.name}`, {
  attributes: {
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.conversation.id": "session-1",
    "gen_ai.tool.name": call.name,
    "gen_ai.tool.call.id": call.id,
    "gen_ai.tool.call.arguments": JSON.stringify(call.arguments),
    "error.type": "ENOENT",
  },
});
span.setStatus({ code: 2, message: "ENOENT: no such file or directory, open 'src/nowhere.ts'" });
span.end();
await provider.shutdown();
