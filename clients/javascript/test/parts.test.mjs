// Pure parts: limits of events, delays, addresses, stacks, snapshots and UUIDs.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readInvalidPositions } from '../dist/esm/batches.js'
import { snapshotOf, toUuid } from '../dist/esm/bullmq.js'
import { formatValues } from '../dist/esm/console.js'
import { encodeEvent, MAX_EVENT_BYTES } from '../dist/esm/events.js'
import { exceptionEvent } from '../dist/esm/exceptions.js'
import { pingUrl } from '../dist/esm/heartbeat.js'
import { readMonitor } from '../dist/esm/monitor_reports.js'
import { otlpVariables } from '../dist/esm/opentelemetry.js'
import { readLine } from '../dist/esm/pino.js'
import { EventQueue } from '../dist/esm/queue.js'
import { readText } from '../dist/esm/responses.js'
import { readRetryAfterMs, retryDelayMs } from '../dist/esm/retries.js'
import { chooseKey, splitUrl } from '../dist/esm/settings.js'
import { findContainer } from '../dist/esm/worker_slots.js'

const decode = (bytes) => JSON.parse(Buffer.from(bytes).toString())

test('values that JSON cannot hold become values that it can', () => {
  const circular = { name: 'a' }
  circular.self = circular
  const deep = {}
  let at = deep
  for (let n = 0; n < 50; n += 1) at = at.next = {}
  const attributes = {
    circular, deep, big: 1n, none: undefined, not: NaN, when: new Date(0), map: new Map([[1, 'x']]), set: new Set([2]),
    bytes: new Uint8Array(3), fn: function shop() {}, symbol: Symbol('s'), bad: { get it() { throw new Error('no') } },
    error: new RangeError('r'), '__proto__x': 1, twice: [circular, circular],
  }
  const found = decode(encodeEvent({ type: 'log', attributes })).attributes
  assert.equal(found.circular.self, '[circular]')
  assert.match(JSON.stringify(found.deep), /\[too deep\]/)
  assert.deepEqual(
    [found.big, found.not, found.when, found.map, found.set, found.bytes, found.fn, found.symbol, found.bad],
    ['1', null, '1970-01-01T00:00:00.000Z', { 1: 'x' }, [2], '[3 bytes]', '[function shop]', 'Symbol(s)', '[unreadable]'],
  )
  assert.deepEqual([found.error.name, found.error.message], ['RangeError', 'r'])
})

test('an event is shortened to its limit, the least important parts first', () => {
  const long = 'x'.repeat(60_000)
  const wide = Object.fromEntries(Array.from({ length: 20 }, (_, n) => [`a${n}`, long]))
  const cases = [
    [{ type: 'log', title: 't', details: 'y'.repeat(300_000) }, (event) => event.title === 't' && event.details.length > 60_000],
    [{ type: 'log', title: 't', attributes: { a: 1 }, payload: wide }, (event) => event.attributes.a === 1 && event.payload['pharos.truncated']],
    [{ type: 'log', title: 't', attributes: wide, payload: wide }, (event) => event.title === 't' && event.attributes['pharos.truncated']],
    [{ type: 'log', title: '🙂'.repeat(200_000) }, (event) => event.title.length > 0],
    [{ type: 'log', attributes: [1, 2] }, (event) => event.attributes.value[1] === 2],
  ]
  for (const [event, isRight] of cases) {
    const bytes = encodeEvent(event)
    assert.ok(bytes.length <= MAX_EVENT_BYTES)
    assert.ok(isRight(decode(bytes)))
  }
  assert.equal(encodeEvent({ type: 'log', title: 'too much' }, 10), undefined)
})

test('delays grow, are limited, jittered, and never below Retry-After', () => {
  const halves = [1, 2, 3, 4].map((failures) => retryDelayMs(failures, 0, () => 0))
  assert.deepEqual(halves, [250, 500, 1000, 2000])
  assert.equal(retryDelayMs(1, 0, () => 1), 500)
  assert.equal(retryDelayMs(1000, 0, () => 1), 30_000)
  assert.equal(retryDelayMs(1, 7000, () => 0), 7000)
  assert.equal(retryDelayMs(1, 1e12, () => 0), 300_000)
  const read = [['3', 3000], ['0', 0], ['-1', 0], ['soon', 0], ['', 0], [null, 0], ['Thu, 01 Jan 1970 00:00:05 GMT', 4000]]
  for (const [header, ms] of read) assert.equal(readRetryAfterMs(header, 1000), ms, String(header))
})

test('an address works with and without /api, and may hold the key', () => {
  for (const address of ['https://p.example', 'https://p.example/', 'https://p.example/api', 'https://p.example/api/']) {
    assert.deepEqual(splitUrl(address), { api: 'https://p.example/api', key: '' })
  }
  assert.equal(splitUrl('http://127.0.0.1:8000/pharos/api').api, 'http://127.0.0.1:8000/pharos/api')
  assert.deepEqual(splitUrl('https://phr_ing_x@p.example'), { api: 'https://p.example/api', key: 'phr_ing_x' })
  for (const address of ['file://phr_ing_x@host/etc', 'phr_ing_x@p.example']) {
    assert.throws(() => splitUrl(address), (error) => error instanceof TypeError && !error.message.includes('phr_ing'))
  }
})

test('which monitor a queue reports to', () => {
  const url = 'https://p.example'
  assert.equal(readMonitor('mail', {}), undefined)
  assert.deepEqual(readMonitor('mail', { url, monitor: '2:phr_mon_x' }), { api: 'https://p.example/api', number: '2', key: 'phr_mon_x' })
  process.env.PHAROS_QUEUES = 'default=1:phr_mon_d, mail=2:phr_mon_m'
  try {
    assert.equal(readMonitor('mail', { url }).key, 'phr_mon_m')
    assert.throws(() => readMonitor('other', { url }), /no entry/)
  } finally {
    delete process.env.PHAROS_QUEUES
  }
  for (const monitor of ['phr_mon_x', 'x:phr_mon_x', '2:', '2:a b']) {
    assert.throws(() => readMonitor('mail', { url, monitor }), (error) => /NUMBER:KEY/.test(error.message))
  }
})

test('ping URLs keep their query', () => {
  const cases = [
    ['https://p.example/ping/k', '', 'https://p.example/ping/k?rid=r'],
    ['https://p.example/ping/k/', 'start', 'https://p.example/ping/k/start?rid=r'],
    ['https://p.example/ping/k/nightly?create=1', 'fail', 'https://p.example/ping/k/nightly/fail?create=1&rid=r'],
  ]
  for (const [base, action, expected] of cases) assert.equal(pingUrl(new URL(base), action, 'r').href, expected)
})

test('anything can be thrown', () => {
  const error = new TypeError('outer', { cause: new RangeError('inner') })
  const event = exceptionEvent(error, { a: 1 })
  assert.deepEqual([event.name, event.title, event.severity, event.attributes], ['TypeError', 'outer', 'error', { a: 1 }])
  assert.match(event.details, /^TypeError: outer\n {4}at .*\nCaused by: RangeError: inner\n {4}at /s)
  assert.match(exceptionEvent(new AggregateError([new Error('one')], 'all')).details, /Collected: Error: one/)
  const loop = new Error('loop')
  loop.cause = loop
  assert.ok(exceptionEvent(loop).details.length < 50_000)
  for (const [thrown, title] of [['text', 'text'], [null, 'null'], [undefined, 'undefined'], [{ code: 7 }, '{"code":7}'], [3n, '3']]) {
    assert.deepEqual([exceptionEvent(thrown).name, exceptionEvent(thrown).title], ['Error', title])
  }
  const foreign = { name: 'ForeignError', message: 'm', stack: 'ForeignError: m\n    at x' }
  assert.deepEqual([exceptionEvent(foreign).name, exceptionEvent(foreign).details], ['ForeignError', foreign.stack])
})

test('the queue is limited by events and by bytes, and takes in order', () => {
  const queue = new EventQueue(3000, 10_000)
  const one = new Uint8Array(4)
  for (let n = 0; n < 2500; n += 1) assert.equal(queue.add(one), true)
  assert.equal(queue.add(one), false)
  assert.deepEqual([queue.count, queue.bytes], [2500, 10_000])
  assert.equal(queue.take(2000, 1e9).length, 2000)
  assert.equal(queue.take(10, 214).length, 2)
  assert.equal(queue.take(10, 1).length, 1)
  assert.deepEqual([queue.count, queue.bytes], [497, 1988])
})

test('positions of invalid events', () => {
  const errors = [{ field: 'events[3].type' }, { field: 'events[12]' }, { field: 'batch_id' }, { field: 'events[99].x' }, null, {}]
  assert.deepEqual([...readInvalidPositions(errors, 20)], [3, 12])
  for (const odd of [undefined, 'text', 7, {}]) assert.equal(readInvalidPositions(odd, 5).size, 0)
})

test('formatted console output', () => {
  const cases = [
    [['a', 1, { b: 2 }], 'a 1 {"b":2}'], [['%s is %d%%', 'x', '5'], 'x is 5%'], [['100%'], '100%'], [['%s'], '%s'],
    [['%o %j', { a: 1 }, [2]], '{"a":1} [2]'], [['%c styled', 'color: red'], ' styled'], [[new RangeError('r')], 'RangeError: r'], [[], ''],
  ]
  for (const [values, text] of cases) assert.equal(formatValues(values), text)
})

test('a snapshot counts what waits, and since when', () => {
  const counts = { waiting: 2, prioritized: 3, paused: 1, active: 4, delayed: 5, 'waiting-children': 6, failed: 7 }
  const now = 1_000_000
  const cases = [
    [[], 0],
    [[undefined], 0],
    [[{ timestamp: now - 9999 }], 9],
    // A delay does not count as waiting, and neither does the time before the last attempt.
    [[{ timestamp: now - 9999, opts: { delay: 5000 } }], 4],
    [[{ timestamp: now - 9999, processedOn: now - 1500 }], 1],
    [[{ timestamp: now + 5000 }, { timestamp: now - 3000 }], 3],
  ]
  for (const [oldest, seconds] of cases) {
    const { snapshot_id, ...rest } = snapshotOf(counts, oldest, now)
    assert.match(snapshot_id, /^[0-9a-f-]{36}$/)
    assert.deepEqual(rest, {
      observed_at: '1970-01-01T00:16:40.000Z', pending: 6, delayed: 11, reserved: 4, failed: 7, oldest_wait_seconds: seconds,
    })
  }
})

test('a UUID stays, and a name becomes the same UUID each time', () => {
  const uuid = '0190F3C2-7b5e-7a10-8c3d-2f4b6a8c0e1f'
  assert.equal(toUuid('worker:x', uuid), uuid.toLowerCase())
  assert.match(toUuid('worker:mail-1'), /^[0-9a-f]{8}-[0-9a-f]{4}-5[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.equal(toUuid('worker:mail-1'), toUuid('worker:mail-1'))
  assert.notEqual(toUuid('worker:mail-1'), toUuid('worker:mail-2'))
})

test('a container is known by its mounts', () => {
  const [one, two, pod] = ['1'.repeat(64), '2'.repeat(64), '00000000-0000-0000-0000-000000000007']
  const cases = [
    [['29 1 8:1 / / rw - ext4 /dev/sda1 rw'], ''],
    // Docker
    [[`9 1 8:1 /var/lib/docker/containers/${one}/hosts /etc/hosts rw - ext4 x rw`], one],
    // Podman
    [[`9 1 0:4 /overlay-containers/${two}/userdata/hosts /etc/hosts rw - tmpfs x rw`], two],
    // Kubernetes, whose node is a container too: a pod keeps its ID, and not that of its sandbox.
    [
      [
        `8 1 8:1 /containerd/sandboxes/${one}/hostname /etc/hostname rw - ext4 x rw`,
        `9 1 8:1 /volumes/${two}/_data/pods/${pod}/etc-hosts /etc/hosts rw - ext4 x rw`,
      ],
      pod,
    ],
    // A file of the user's own says nothing.
    [
      ['8 1 8:1 /home/ada/hosts /etc/hosts rw - ext4 x rw', `9 1 8:1 /containers/${one}/hostname /etc/hostname rw - ext4 x rw`],
      one,
    ],
    [[`9 1 8:1 /volumes/${one}/_data /data rw - ext4 x rw`, '', '9 1'], ''],
  ]
  for (const [lines, expected] of cases) assert.equal(findContainer(lines.join('\n')), expected)
})

test('lines of Pino', () => {
  const line = readLine('{"level":50,"time":0,"pid":1,"hostname":"h","msg":"m","order":7,"trace_id":"t","err":{"stack":"s"}}')
  assert.deepEqual(line, {
    type: 'log', severity: 'error', title: 'm', attributes: { order: 7 }, timestamp: '1970-01-01T00:00:00.000Z', trace_id: 't', details: 's',
  })
  const levels = [[10, 'debug'], ['debug', 'debug'], [30, 'info'], ['warn', 'warning'], [60, 'critical'], [undefined, 'info']]
  for (const [level, severity] of levels) assert.equal(readLine(JSON.stringify({ level, time: 0 })).severity, severity)
  assert.deepEqual(readLine('no JSON'), { type: 'log', severity: 'info', title: 'no JSON' })
})

/** Call a function with these environment variables. */
function withVariables(variables, run) {
  const before = { ...process.env }
  Object.assign(process.env, variables)
  try {
    return run()
  } finally {
    for (const name of Object.keys(variables)) {
      if (before[name] === undefined) delete process.env[name]
      else process.env[name] = before[name]
    }
  }
}

test('variables of OpenTelemetry', () => {
  const pharos = { PHAROS_URL: 'https://p.example/api', PHAROS_INGEST_KEY: 'phr_ing_x', PHAROS_ENVIRONMENT: 'a,b' }
  const own = { url: 'https://own.example', ingestKey: 'phr_ing_own', serviceName: 'shop', release: '2' }
  assert.throws(() => otlpVariables({}), /PHAROS_URL/)
  const found = withVariables(pharos, () => otlpVariables({}))
  assert.equal(found.OTEL_EXPORTER_OTLP_PROTOCOL, 'http/json')
  assert.equal(found.OTEL_EXPORTER_OTLP_LOGS_ENDPOINT, 'https://p.example/api/v1/otlp/v1/logs')
  assert.equal(found.OTEL_EXPORTER_OTLP_LOGS_HEADERS, 'Authorization=Bearer%20phr_ing_x')
  assert.equal(found.OTEL_RESOURCE_ATTRIBUTES, 'deployment.environment.name=a%2Cb')
  // Variables of a deployed application stay, except those that the application sets itself.
  const deployed = {
    ...pharos,
    OTEL_EXPORTER_OTLP_ENDPOINT: 'https://p.example/api/v1/otlp',
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/protobuf',
    OTEL_RESOURCE_ATTRIBUTES: 'service.namespace=a%20b,service.version=1',
  }
  const kept = withVariables(deployed, () => otlpVariables({}))
  assert.deepEqual(Object.keys(kept).filter((name) => name.includes('ENDPOINT') || name.includes('PROTOCOL')), [])
  assert.equal(kept.OTEL_RESOURCE_ATTRIBUTES, 'service.namespace=a%20b,service.version=1,deployment.environment.name=a%2Cb')
  const replaced = withVariables(deployed, () => otlpVariables(own))
  assert.equal(replaced.OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, 'https://own.example/api/v1/otlp/v1/traces')
  assert.equal(replaced.OTEL_SERVICE_NAME, 'shop')
  assert.match(replaced.OTEL_RESOURCE_ATTRIBUTES, /service\.version=2/)
})

test('the ingest key goes to no other endpoint', () => {
  const pharos = { PHAROS_URL: 'https://p.example', PHAROS_INGEST_KEY: 'phr_ing_x' }
  const all = withVariables({ ...pharos, OTEL_EXPORTER_OTLP_ENDPOINT: 'https://other.example' }, () => otlpVariables({}))
  assert.ok(!JSON.stringify(all).includes('phr_ing_x'))
  const one = withVariables({ ...pharos, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT: 'https://other.example' }, () => otlpVariables({}))
  const holders = Object.keys(one).filter((name) => one[name].includes('phr_ing_x'))
  assert.deepEqual(holders, ['OTEL_EXPORTER_OTLP_METRICS_HEADERS', 'OTEL_EXPORTER_OTLP_LOGS_HEADERS'])
})

test('the key of the environment goes to no other server', () => {
  const saved = { ...process.env }
  try {
    process.env.PHAROS_URL = 'https://pharos.example/api'
    process.env.PHAROS_INGEST_KEY = 'phr_ing_environment'
    assert.equal(chooseKey(undefined, splitUrl('https://pharos.example')), 'phr_ing_environment')
    assert.equal(chooseKey(undefined, splitUrl('https://other.example')), undefined)
    assert.equal(chooseKey('phr_ing_own', splitUrl('https://other.example')), 'phr_ing_own')
    assert.equal(chooseKey(undefined, splitUrl('https://phr_ing_url@other.example')), 'phr_ing_url')
    delete process.env.PHAROS_URL
    assert.equal(chooseKey(undefined, splitUrl('https://other.example')), 'phr_ing_environment')
  } finally {
    process.env = saved
  }
})

test('no more of a response is received than its beginning', async () => {
  let sent = 0
  const endless = new ReadableStream({
    pull(controller) {
      sent += 1
      controller.enqueue(new Uint8Array(10_000).fill(97))
    },
  })
  assert.equal((await readText(new Response(endless))).length, 64 * 1024)
  assert.ok(sent < 20, `${sent} pieces were read`)
  assert.equal(await readText(new Response('håp')), 'håp')
  assert.equal(await readText(new Response(null, { status: 204 })), '')
})
