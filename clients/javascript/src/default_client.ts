// The client that `log` and `captureException` of the package use. An application may load the package both as ESM and as
// CommonJS: both copies use the client of the process.

import { Client, type Logger } from './client.js'
import type { Attributes, TelemetryEvent } from './events.js'

const KEY = Symbol.for('pharos-client.default')
const shared = globalThis as { [KEY]?: Client }

export function defaultClient(): Client | undefined {
  return shared[KEY]
}

/** Set the default client, and close the former one in the background. */
export function setDefaultClient(client: Client): Client {
  void shared[KEY]?.close()
  shared[KEY] = client
  return client
}

/** Logs of the default client. Before `init`, they are dropped. */
export const log: Logger = {
  debug: (message, attributes) => defaultClient()?.log.debug(message, attributes),
  info: (message, attributes) => defaultClient()?.log.info(message, attributes),
  warn: (message, attributes) => defaultClient()?.log.warn(message, attributes),
  error: (message, attributes) => defaultClient()?.log.error(message, attributes),
  critical: (message, attributes) => defaultClient()?.log.critical(message, attributes),
}

/** Queue an event of the default client. */
export function capture(event: TelemetryEvent): void {
  defaultClient()?.capture(event)
}

/** Queue an exception of the default client. */
export function captureException(error: unknown, attributes?: Attributes): void {
  defaultClient()?.captureException(error, attributes)
}

/** Send the waiting events of the default client; see `Client.flush`. */
export async function flush(timeoutMs?: number): Promise<boolean> {
  return (await defaultClient()?.flush(timeoutMs)) ?? true
}

/** Send the waiting events of the default client, then end it; see `Client.close`. */
export async function close(timeoutMs?: number): Promise<boolean> {
  return (await defaultClient()?.close(timeoutMs)) ?? true
}
