// The package in Node.js.

import { Client } from './client.js'
import { setDefaultClient } from './default_client.js'
import { captureUncaught, flushOnExit } from './process_end.js'
import type { ClientOptions } from './settings.js'

export * from './core.js'
export { requestMiddleware, type RequestOptions } from './requests.js'

/**
 * Start the default client, which `log`, `capture` and `captureException` use. It sends the remaining events when the
 * process ends.
 */
export function init(options: ClientOptions = {}): Client {
  const client = setDefaultClient(new Client(options))
  if (client.enabled) {
    if (options.flushOnExit !== false) flushOnExit(client)
    if (options.captureUncaught === true) captureUncaught(client)
  }
  return client
}
