// Sends the remaining events when the process ends, and reports the error that ends it.

import { spawnSync } from 'node:child_process'
import type { Batch } from './batches.js'
import { joinEvents } from './batches.js'
import type { Client } from './client.js'
import { beforeEnd } from './end_signals.js'

// `exit` allows no asynchronous work, so another process sends the remaining events. It gets the key over its standard
// input: arguments and environments of processes can be read by others.
const SEND_LEFT = `
let text = ''
process.stdin.on('data', (part) => { text += part }).on('end', async () => {
  const { url, key, bodies } = JSON.parse(text)
  const headers = { Authorization: 'Bearer ' + key, 'Content-Type': 'application/json' }
  for (const body of bodies) {
    await fetch(url, { method: 'POST', headers, body, redirect: 'manual' }).catch(() => {})
  }
  process.exit()
})`

/** Report uncaught errors. The process still ends as usual in Node.js, with the same output and status. */
export function captureUncaught(client: Client): void {
  const report = (error: unknown, origin: string): void => {
    client.captureException(error, { 'exception.escaped': true, 'exception.origin': origin })
  }
  // Also called for unhandled rejections, unless `--unhandled-rejections` says otherwise.
  process.on('uncaughtExceptionMonitor', report)
  client.onClose(() => process.off('uncaughtExceptionMonitor', report))
}

/** Send the remaining events at `beforeExit`, at signals that end the process, and at `exit`. */
export function flushOnExit(client: Client): void {
  const { exitTimeoutMs } = client.settings
  let hasGivenUp = false

  const atBeforeExit = (): void => {
    // Without this, an outage would call the handler again and again: each flush keeps the process alive.
    if (hasGivenUp || client.stats().waiting === 0) return
    void client.flush(exitTimeoutMs).then((isDone) => {
      hasGivenUp = !isDone
    })
  }
  const atExit = (): void => {
    if (hasGivenUp) return
    const left = client.unsentBatches()
    if (left.length > 0) sendInProcess(client, left)
  }

  process.on('beforeExit', atBeforeExit).on('exit', atExit)
  const forgetSignals = beforeEnd(() => client.flush(exitTimeoutMs))
  client.onClose(() => {
    process.off('beforeExit', atBeforeExit).off('exit', atExit)
    forgetSignals()
  })
}

function sendInProcess(client: Client, batches: readonly Batch[]): void {
  // The program of Electron is not Node.js.
  if (process.versions['electron'] !== undefined) return
  const decoder = new TextDecoder()
  const input = JSON.stringify({
    url: `${client.settings.api}/v1/ingest`,
    key: client.settings.ingestKey,
    bodies: batches.map((batch) => decoder.decode(joinEvents(batch.id, batch.events))),
  })
  // Modules that the application preloads have no place in that process.
  const { NODE_OPTIONS: _, ...env } = process.env
  try {
    spawnSync(process.execPath, ['-e', SEND_LEFT], {
      input,
      env,
      stdio: ['pipe', 'ignore', 'ignore'],
      timeout: client.settings.exitTimeoutMs,
      killSignal: 'SIGKILL',
      windowsHide: true,
    })
  } catch {
    // The process ends, so a failure cannot be reported.
  }
}
