// The effect of a signal on a process, with and without handlers of the application. Each case is a separate process.
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { test } from 'node:test'

const MODULE = JSON.stringify(new URL('../dist/esm/end_signals.js', import.meta.url).href)

// `shutdown` takes longer than the tasks: a process that Pharos ends does not get to its status.
const source = (before, after) => `
  import { once } from 'node:events'
  import { beforeEnd } from ${MODULE}
  const send = () => process.kill(process.pid, 'SIGTERM')
  const shutdown = () => setTimeout(() => process.exit(7), 100)
  const task = () => new Promise((resolve) => setImmediate(resolve))
  ${before}
  const forget = beforeEnd(task)
  ${after}
  setTimeout(() => process.exit(1), 20_000)
  setImmediate(send)
`

async function run(before, after) {
  const child = spawn(process.execPath, ['--input-type=module', '-e', source(before, after)], { stdio: 'inherit' })
  const [status, signal] = await once(child, 'exit')
  return signal ?? status
}

test('a signal ends the process only if the application does not handle it', async () => {
  const handlers = [
    `process.on('SIGTERM', shutdown)`,
    `process.once('SIGTERM', shutdown)`,
    `process.prependOnceListener('SIGTERM', shutdown)`,
    `void once(process, 'SIGTERM').then(shutdown)`,
    `process.on('SIGTERM', function handle() { process.off('SIGTERM', handle); shutdown() })`,
    `process.on('SIGTERM', () => { process.removeAllListeners('SIGTERM'); shutdown() })`,
  ]
  const cases = [
    ...handlers.flatMap((handler) => [[handler, '', 7], ['', handler, 7]]),
    ['', '', 'SIGTERM'],
    // Several parts of the package.
    ['beforeEnd(() => task())', '', 'SIGTERM'],
    [`process.once('SIGTERM', shutdown); beforeEnd(() => task())()`, '', 7],
    [`process.once('SIGTERM', shutdown); beforeEnd(() => task())`, 'forget()', 7],
    ['', 'forget()', 'SIGTERM'],
    // A handler that was removed, and one for another signal.
    [`process.once('SIGTERM', shutdown); process.off('SIGTERM', shutdown)`, '', 'SIGTERM'],
    ['', `process.once('SIGTERM', shutdown); process.off('SIGTERM', shutdown)`, 'SIGTERM'],
    [`process.once('SIGINT', shutdown)`, '', 'SIGTERM'],
    // A second signal finds no handler: it ends the process, as it would without Pharos.
    [`process.once('SIGTERM', () => setImmediate(send))`, '', 'SIGTERM'],
  ]
  const ends = await Promise.all(cases.map(([before, after]) => run(before, after)))
  cases.forEach(([before, after, expected], at) => assert.equal(ends[at], expected, `${before} | ${after}`))
})
