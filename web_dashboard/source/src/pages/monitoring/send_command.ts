// Commands that send one record of telemetry with `curl`. `$KEY` is an ingest key.

export type Kind = 'request' | 'exception' | 'log' | 'metric' | 'trace';

const EVENTS: Record<Exclude<Kind, 'trace'>, string> = {
  request: '{"type": "request", "name": "GET /cart", "status_code": 200, "duration_ms": 12.5}',
  exception: '{"type": "exception", "name": "ValueError", "title": "no price for sku 42"}',
  log: '{"type": "log", "severity": "info", "title": "Hello from curl"}',
  metric: '{"type": "metric", "name": "basket.size", "attributes": {"value": 3}}',
};

const HEADERS = `  -H "Authorization: Bearer $KEY" -H 'Content-Type: application/json' \\\n`;

/** Return a command for a shell, with IDs that are new each time it runs. `origin`: the address of this installation. */
export function sendCommand(kind: Kind, origin: string): string {
  if (kind !== 'trace') {
    return `curl -sS ${origin}/api/v1/ingest \\\n${HEADERS}  -d '{"batch_id": "first-'$(date +%s%N)'", "events": [${EVENTS[kind]}]}'`;
  }
  return `NOW=$(date +%s)
curl -sS ${origin}/api/v1/otlp/v1/traces \\
${HEADERS}  -d '{"resourceSpans": [{
  "resource": {"attributes": [{"key": "service.name", "value": {"stringValue": "shop"}}]},
  "scopeSpans": [{"spans": [{"name": "GET /cart", "kind": 2, "traceId": "5b8efff798038103d269b6'$NOW'",
    "spanId": "eee19b7ec3c1b174", "startTimeUnixNano": "'$NOW'000000000", "endTimeUnixNano": "'$NOW'250000000"}]}]}]}'`;
}
