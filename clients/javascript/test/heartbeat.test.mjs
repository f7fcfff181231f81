// Pings against a `fetch` of the test.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { heartbeat } from '../dist/esm/heartbeat.js'

const URL_WITH_QUERY = 'https://p.example/ping/phr_prj_x/nightly?create=1'

function recorder(...statuses) {
  const pings = []
  const fetch = async (url, { body, method }) => {
    pings.push({ method, path: url.pathname, query: url.searchParams, body })
    const status = statuses.shift() ?? 200
    if (status === 0) throw new TypeError('fetch failed')
    return new Response('', { status })
  }
  return { fetch, pings }
}

const actions = (pings) => pings.map((ping) => ping.path.replace('/ping/phr_prj_x/nightly', '') || '/')

test('start and result share an ID, and the query of the URL stays', async () => {
  const { fetch, pings } = recorder()
  assert.equal(await heartbeat(URL_WITH_QUERY, { fetch })(() => 7), 7)
  assert.deepEqual(actions(pings), ['/start', '/'])
  assert.equal(new Set(pings.map((ping) => ping.query.get('rid'))).size, 1)
  for (const ping of pings) assert.deepEqual([ping.method, ping.query.get('create')], ['POST', '1'])
})

test('a failure carries the stack, and the error reaches the caller', async () => {
  const { fetch, pings } = recorder()
  const error = new RangeError('disk full')
  await assert.rejects(heartbeat(URL_WITH_QUERY, { fetch })(() => { throw error }), error)
  assert.deepEqual(actions(pings), ['/start', '/fail'])
  assert.match(pings[1].body, /^RangeError: disk full\n {4}at /)
})

test('pings are repeated after passing faults only', async () => {
  const passing = recorder(503, 0, 429)
  await heartbeat(URL_WITH_QUERY, { fetch: passing.fetch, timeoutMs: 60_000, retryFirstMs: 1 }).start().success()
  assert.deepEqual(actions(passing.pings), ['/start', '/start', '/start', '/start', '/'])
  const errors = []
  const final = recorder(404, 404)
  await heartbeat(URL_WITH_QUERY, { fetch: final.fetch, onError: (error) => errors.push(error.message) }).start().exit(300)
  assert.deepEqual(actions(final.pings), ['/start', '/255'])
  assert.equal(errors.length, 2)
  assert.ok(!errors.join().includes('phr_prj_x'))
})

test('texts are sent while a run is open', async () => {
  const { fetch, pings } = recorder()
  const run = heartbeat(URL_WITH_QUERY, { fetch }).start()
  await run.log('half done')
  await run.success()
  assert.deepEqual(actions(pings), ['/start', '/log', '/'])
  assert.equal(pings[1].body, 'half done')
})

test('long output keeps its beginning and its end, within 10 KiB', async () => {
  const { fetch, pings } = recorder()
  await heartbeat(URL_WITH_QUERY, { fetch }).start().success(`begin ${'é'.repeat(20_000)} end`)
  const bytes = Buffer.byteLength(pings[1].body)
  assert.ok(bytes <= 10 * 1024 && bytes > 10_000, String(bytes))
  assert.match(pings[1].body, /^begin é.*…\n.*é end$/s)
})
