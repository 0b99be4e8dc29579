// A page of a shop as its authors write it: the SDK for browsers is told where to send, and
// fetch is instrumented. Nothing else is set.
import { diag, trace } from '@opentelemetry/api';
import { OTLPTraceExporter } from '@opentelemetry/exporter-trace-otlp-http';
import { registerInstrumentations } from '@opentelemetry/instrumentation';
import { FetchInstrumentation } from '@opentelemetry/instrumentation-fetch';
import { resourceFromAttributes } from '@opentelemetry/resources';
import { BatchSpanProcessor, WebTracerProvider } from '@opentelemetry/sdk-trace-web';

const asked = new URLSearchParams(location.search);
const clicks = Number(asked.get('clicks'));
const plainFetch = window.fetch.bind(window); // what the test is told is not a span of the page

const warned = [];
const warn = (...what) => void warned.push(what.join(' '));
diag.setLogger({ error: warn, warn, info() {}, debug() {}, verbose() {} });

// The instrumentation ends a span once the browser has its timing, a while after the answer.
let ended = 0;
let allEnded;
const all = new Promise((resolve) => (allEnded = resolve));
const counting = {
  onStart() {},
  onEnd() {
    if (++ended === 2 * clicks) allEnded();
  },
  forceFlush: async () => {},
  shutdown: async () => {},
};

const provider = new WebTracerProvider({
  resource: resourceFromAttributes({ 'service.name': asked.get('service') }),
  spanProcessors: [counting, new BatchSpanProcessor(new OTLPTraceExporter({ url: asked.get('to') + '/v1/traces' }))],
});
provider.register();
registerInstrumentations({ instrumentations: [new FetchInstrumentation()] });

const tracer = trace.getTracer('shop');
for (let i = 0; i < clicks; i++) {
  await tracer.startActiveSpan('add to cart', async (span) => {
    await fetch('/cart');
    span.end();
  });
}
await all;
await provider.forceFlush().catch((e) => warn(String(e)));
await plainFetch('/done', { method: 'POST', body: JSON.stringify(warned) });
