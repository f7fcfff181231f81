// Reports of queues and workers against a `fetch` of the test, with stand-ins for BullMQ's queue and worker.
import assert from 'node:assert/strict'
import { EventEmitter, once } from 'node:events'
import { after, test } from 'node:test'
import { watchQueue, watchWorker } from '../dist/esm/bullmq.js'

// Reports keep no process alive.
const alive = setInterval(() => {}, 1000)
after(() => clearInterval(alive))

const MONITOR = { url: 'https://p.example', monitor: '2:phr_mon_x', retryFirstMs: 1 }

/** Return a `fetch` that answers with these statuses in order, then with 202. It emits `report` for each request. */
function recorder(...statuses) {
  const events = new EventEmitter()
  const reports = []
  const fetch = async (url, { body, headers }) => {
    const report = { url, key: headers.Authorization, ...JSON.parse(body) }
    reports.push(report)
    events.emit('report', report)
    const status = statuses.shift() ?? 202
    if (status === 0) throw new TypeError('fetch failed')
    return new Response('', { status })
  }
  return { fetch, reports, events }
}

class FakeWorker extends EventEmitter {
  name = 'mail'
}

const queue = {
  name: 'mail',
  getJobCounts: async () => ({ waiting: 3, active: 1 }),
  getJobs: async () => [],
}

test('a snapshot is repeated with its ID until Pharos has it', async () => {
  const { fetch, reports } = recorder(503, 0, 401)
  const watch = watchQueue(queue, { ...MONITOR, fetch })
  await new Promise((resolve) => setImmediate(resolve))
  await watch.close(60_000)
  assert.equal(reports.length, 4)
  assert.equal(new Set(reports.map((report) => report.snapshot_id)).size, 1)
  assert.deepEqual(
    [reports[0].url, reports[0].key, reports[0].pending, reports[0].reserved],
    ['https://p.example/api/v1/queues/2/snapshots', 'Bearer phr_mon_x', 3, 1],
  )
})

test('a queue whose Redis is away is not reported, and breaks nothing', async () => {
  const { fetch, reports } = recorder()
  const broken = { ...queue, getJobCounts: async () => Promise.reject(new Error('no Redis')) }
  const watch = watchQueue(broken, { ...MONITOR, fetch })
  await new Promise((resolve) => setImmediate(resolve))
  await watch.close()
  assert.deepEqual(reports, [])
})

test('a worker reports its newest state under growing numbers', async () => {
  const { fetch, reports, events } = recorder(503)
  const worker = new FakeWorker()
  const watch = watchWorker(worker, { ...MONITOR, fetch, workerId: 'mail-1' })
  const [one, two] = [{ id: '1', timestamp: 1 }, { id: '2', timestamp: 2 }]
  worker.emit('active', one)
  worker.emit('active', two)
  worker.emit('completed', one)
  // A stalled job fails without its data.
  worker.emit('failed', undefined)
  while (reports.at(-1)?.status !== 'busy') await once(events, 'report')
  worker.emit('failed', two)
  while (reports.at(-1)?.status !== 'idle') await once(events, 'report')
  worker.emit('closed')
  await watch.close()
  const states = reports.map((report) => report.status)
  // The first report is repeated, as it was.
  assert.deepEqual(states, ['idle', 'idle', 'busy', 'idle', 'stopped'])
  assert.equal(reports[0].sequence, reports[1].sequence)
  const numbers = reports.slice(1).map((report) => report.sequence)
  assert.deepEqual(numbers, [...new Set(numbers)].sort((a, b) => a - b))
  assert.ok(numbers.every(Number.isSafeInteger))
  assert.equal(new Set(reports.map((report) => report.worker_id)).size, 1)
  assert.match(reports[2].job_id, /^[0-9a-f-]{36}$/)
  // One that starts later with the same ID continues above, even within the millisecond.
  const later = recorder()
  const { now } = Date
  Date.now = () => Math.floor(numbers.at(-1) / 1000)
  try {
    await watchWorker(new FakeWorker(), { ...MONITOR, fetch: later.fetch, workerId: 'mail-1' }).close()
  } finally {
    Date.now = now
  }
  assert.equal(later.reports[0].worker_id, reports[0].worker_id)
  assert.ok(later.reports[0].sequence > numbers.at(-1))
})

test('a worker without a name gets the number of the one before it', async () => {
  const { fetch, reports } = recorder()
  const start = () => watchWorker(new FakeWorker(), { ...MONITOR, fetch })
  const before = start()
  const other = start()
  await before.close()
  const after = start()
  await Promise.all([after.close(), other.close()])
  const ids = reports.map((report) => report.worker_id)
  // Each worker reports that it is idle, then that it has stopped.
  const isKnown = process.platform === 'linux' && Number(process.versions.node.split('.')[0]) >= 20
  if (isKnown) assert.deepEqual([new Set(ids).size, ids.filter((id) => id === ids[0]).length], [2, 4])
  else assert.ok(new Set(ids).size >= 2)
})

test('what cannot be reported is told once and breaks nothing', async () => {
  const cases = [
    [{ ...MONITOR, monitor: 'phr_mon_x' }, [], /NUMBER:KEY/],
    [{ ...MONITOR, url: 'nowhere' }, [], /no URL/],
    [{ monitor: '2:phr_mon_x' }, [], /PHAROS_URL/],
    [MONITOR, [404, 404], /404/],
  ]
  for (const [options, statuses, expected] of cases) {
    const errors = []
    const { fetch } = recorder(...statuses)
    const onError = (error) => {
      errors.push(error.message)
      throw new Error('a hook that fails')
    }
    const worker = new FakeWorker()
    await watchWorker(worker, { ...options, fetch, onError }).close()
    assert.match(errors[0], expected)
    assert.ok(!errors.join().includes('phr_mon_x'))
    assert.equal(worker.listenerCount('active'), 0)
  }
})

test('without settings nothing is reported, and nothing is told', async () => {
  const { fetch, reports } = recorder()
  const onError = (error) => assert.fail(error)
  await watchQueue(queue, { fetch, onError }).close()
  await watchWorker(new FakeWorker(), { fetch, onError }).close()
  assert.deepEqual(reports, [])
})
