// The client with a `fetch` of the test: its requests, their order, and their repetition.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { Client } from '../dist/esm/core.js'

const KEY = { url: 'https://pharos.example', ingestKey: 'phr_ing_test' }

/** Return a `fetch` that answers with these responses in order, then with 202, and the requests it got. */
function recorder(...answers) {
  const requests = []
  const fetch = async (url, { body, headers }) => {
    const bytes = Buffer.from(body)
    const json = headers['Content-Encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
    requests.push({ url, headers, bytes, batch: JSON.parse(json.toString()) })
    const answer = answers.shift() ?? { status: 202 }
    if (answer instanceof Error) throw answer
    const text = answer.json === undefined ? '' : JSON.stringify(answer.json)
    return new Response(text, { status: answer.status, headers: answer.headers ?? {} })
  }
  return { fetch, requests }
}

function open(answers = [], options = {}) {
  const problems = []
  const { fetch, requests } = recorder(...answers)
  const client = new Client({ ...KEY, fetch, retryFirstMs: 1, onError: (problem) => problems.push(problem), ...options })
  return { client, requests, problems }
}

test('a transient answer repeats the same bytes under the same ID', async () => {
  const { client, requests } = open([
    { status: 503 }, { status: 500 }, { status: 408 }, new TypeError('fetch failed'), { status: 429, headers: { 'Retry-After': '0' } },
  ])
  for (let n = 0; n < 50; n += 1) client.log.info(`event ${n}`)
  assert.equal(await client.flush(), true)
  assert.equal(requests.length, 6)
  assert.equal(new Set(requests.map((request) => request.batch.batch_id)).size, 1)
  for (const request of requests) assert.deepEqual(request.bytes, requests[0].bytes)
  assert.equal(requests[0].headers['Content-Encoding'], 'gzip')
  assert.equal(requests[0].url, 'https://pharos.example/api/v1/ingest')
  assert.equal(client.stats().stored, 50)
  assert.equal(client.stats().retries, 5)
})

test('batches keep their limits and their order', async () => {
  const { client, requests } = open([], { maxBatchEvents: 3, maxBatchBytes: 1024 })
  for (let n = 0; n < 8; n += 1) client.capture({ type: 'log', title: `${n}` })
  client.capture({ type: 'log', title: 'long', details: 'x'.repeat(3000) })
  await client.close()
  const batches = requests.map((request) => request.batch.events.map((event) => event.title))
  assert.deepEqual(batches, [['0', '1', '2'], ['3', '4', '5'], ['6', '7'], ['long']])
  assert.equal(new Set(requests.map((request) => request.batch.batch_id)).size, 4)
})

test('413 splits a batch, and one event that is too large is dropped', async () => {
  const { client, requests } = open([{ status: 413 }, { status: 413 }, { status: 413 }])
  for (const title of ['a', 'b', 'c']) client.capture({ type: 'log', title })
  assert.equal(await client.flush(), true)
  const titles = requests.map((request) => request.batch.events.map((event) => event.title).join(''))
  assert.deepEqual(titles, ['abc', 'ab', 'a', 'b', 'c'])
  assert.equal(new Set(requests.map((request) => request.batch.batch_id)).size, 5)
  assert.deepEqual([client.stats().stored, client.stats().tooLarge], [2, 1])
})

test('422 drops the events that it names and sends the others', async () => {
  const errors = [{ field: 'events[1].type', message: 'must be one of …' }, { field: 'events[9].x', message: 'no such event' }]
  const { client, requests, problems } = open([{ status: 422, json: { errors } }])
  for (const title of ['a', 'b', 'c']) client.capture({ type: 'log', title })
  assert.equal(await client.flush(), true)
  assert.deepEqual(requests[1].batch.events.map((event) => event.title), ['a', 'c'])
  assert.notEqual(requests[1].batch.batch_id, requests[0].batch.batch_id)
  assert.deepEqual(problems.map(({ kind, status, errors }) => ({ kind, status, errors })), [{ kind: 'invalid', status: 422, errors }])
})

test('a 422 that names no event drops the batch', async () => {
  const { client, requests } = open([{ status: 422, json: { errors: [{ field: 'batch_id', message: 'too long' }] } }])
  client.log.info('a')
  assert.equal(await client.flush(), true)
  assert.deepEqual([requests.length, client.stats().invalid], [1, 1])
})

test('other answers are final and are told', async () => {
  for (const status of [200, 301, 400, 403, 404, 415]) {
    const { client, requests, problems } = open([{ status }])
    client.log.info('a')
    assert.equal(await client.flush(), true)
    assert.deepEqual([requests.length, client.stats().refused, problems[0].status], [1, 1, status])
  }
})

test('a new key that an edge does not know yet is tried again', async () => {
  const { client, problems } = open([{ status: 401 }, { status: 401 }])
  client.log.info('a')
  assert.equal(await client.flush(), true)
  assert.equal(client.stats().stored, 1)
  assert.deepEqual(problems.map((problem) => problem.kind), ['unreachable'])
})

test('a full queue drops new events, counts them and tells once', async () => {
  const { client, problems } = open([], { maxQueueEvents: 2, maxBatchEvents: 1000 })
  for (let n = 0; n < 5; n += 1) client.log.info(`${n}`)
  assert.deepEqual([client.stats().queueFull, client.stats().waiting], [3, 2])
  assert.deepEqual(problems.map((problem) => problem.kind), ['dropped'])
  await client.close()
  assert.equal(client.stats().stored, 2)
})

test('flush gives up after its time, and close counts what is left', async () => {
  const { client } = open(Array.from({ length: 1000 }, () => ({ status: 503 })), { retryFirstMs: 50 })
  client.log.info('a')
  assert.equal(await client.flush(20), false)
  assert.equal(await client.close(20), false)
  client.log.info('b')
  assert.deepEqual([client.stats().unsent, client.stats().waiting], [2, 0])
})

test('close ends a request that gets no answer', async () => {
  const fetch = (_, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(new Error('aborted'))))
  const client = new Client({ ...KEY, fetch })
  client.log.info('a')
  assert.equal(await client.close(10), false)
})

test('without URL and key, all calls do nothing', async () => {
  const problems = []
  const client = new Client({ onError: (problem) => problems.push(problem) })
  client.log.info('a')
  client.captureException(new Error('b'))
  assert.equal(await client.close(), true)
  assert.deepEqual([client.enabled, problems, client.stats().waiting], [false, [], 0])
})

test('incomplete or wrong settings disable the client and are told', () => {
  for (const options of [
    { url: 'https://pharos.example' }, { ingestKey: 'phr_ing_x' }, { url: 'pharos.example:80', ingestKey: 'phr_ing_x' },
    { url: 'ftp://pharos.example', ingestKey: 'phr_ing_x' }, { url: 'https://pharos.example', ingestKey: 'two\nlines' },
  ]) {
    const problems = []
    const client = new Client({ ...options, onError: (problem) => problems.push(problem.kind) })
    assert.deepEqual([client.enabled, problems], [false, ['settings']], JSON.stringify(options))
  }
})

test('beforeSend changes and drops events, and may fail', async () => {
  const beforeSend = (event) => {
    if (event.title === 'broken') throw new Error('no')
    return event.title === 'secret' ? null : { ...event, title: event.title.toUpperCase() }
  }
  const { client, requests, problems } = open([], { beforeSend })
  for (const title of ['a', 'secret', 'broken']) client.log.info(title)
  await client.close()
  assert.deepEqual(requests[0].batch.events.map((event) => event.title), ['A'])
  assert.deepEqual(problems.map((problem) => problem.kind), ['dropped'])
  assert.deepEqual([client.stats().stored, client.stats().invalid], [1, 1])
})

test('flush waits for what was queued before it, whatever is dropped meanwhile', async () => {
  let answer
  const fetch = () => new Promise((resolve) => (answer = resolve))
  const beforeSend = (event) => {
    if (event.title === 'broken') throw new Error('no')
    return event
  }
  const client = new Client({ ...KEY, fetch, beforeSend, onError: () => {} })
  client.log.info('a')
  const flushed = client.flush(60_000)
  client.log.info('broken')
  client.log.info('later')
  let isDone = false
  void flushed.then(() => (isDone = true))
  while (answer === undefined) await new Promise((resolve) => setImmediate(resolve))
  assert.equal(isDone, false)
  answer(new Response('', { status: 202 }))
  assert.equal(await flushed, true)
  assert.equal(client.stats().stored, 1)
  await client.close(1)
})

test('console output is captured on request, printed as before, and restored', async () => {
  const printed = []
  const before = console.error
  console.error = (...values) => printed.push(values)
  const own = console.error
  try {
    const { client, requests } = open([], { captureConsole: ['error'] })
    console.error('failed: %s', 'x', new RangeError('y'))
    await client.close()
    assert.equal(console.error, own)
    assert.equal(printed.length, 1)
    const [event] = requests[0].batch.events
    assert.deepEqual([event.severity, event.title], ['error', 'failed: x RangeError: y'])
    assert.match(event.details, /^RangeError: y\n {4}at /)
  } finally {
    console.error = before
  }
})

test('a second close waits for the first one and answers the same', async () => {
  for (const [answer, expected] of [[{ status: 202 }, true], [undefined, false]]) {
    let requests = 0
    let reply
    const fetch = (_, { signal }) =>
      new Promise((resolve, reject) => {
        requests += 1
        reply = () => resolve(new Response('', answer))
        signal.addEventListener('abort', () => reject(new Error('aborted')))
      })
    const client = new Client({ ...KEY, fetch, onError: () => {} })
    let cleanups = 0
    client.onClose(() => (cleanups += 1))
    client.log.info('a')
    const first = client.close(answer === undefined ? 10 : 60_000)
    let isDone = false
    const second = client.close()
    void second.then(() => (isDone = true))
    while (reply === undefined) await new Promise((resolve) => setImmediate(resolve))
    // The handlers for the end of the process stay until all events are sent.
    if (answer !== undefined) {
      assert.deepEqual([isDone, cleanups], [false, 0])
      reply()
    }
    assert.deepEqual(await Promise.all([first, second, client.close()]), [expected, expected, expected])
    assert.deepEqual([requests, cleanups], [1, 1])
  }
})
