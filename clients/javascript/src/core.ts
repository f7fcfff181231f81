// The part that works without Node.js: in workers of edge networks, in Deno, and in browsers. An ingest key is a
// secret: never put one into a page.

import { Client } from './client.js'
import { setDefaultClient } from './default_client.js'
import type { ClientOptions } from './settings.js'

export { Client, type Logger } from './client.js'
export { capture, captureException, close, defaultClient, flush, log } from './default_client.js'
export type { Attributes, EventType, Severity, TelemetryEvent } from './events.js'
export { type Heartbeat, heartbeat, type HeartbeatOptions, type HeartbeatRun } from './heartbeat.js'
export type { Counts } from './sender.js'
export type { ClientOptions, ConsoleMethod, Problem } from './settings.js'

/** Start the default client, which `log`, `capture` and `captureException` use. */
export function init(options: ClientOptions = {}): Client {
  return setDefaultClient(new Client(options))
}
