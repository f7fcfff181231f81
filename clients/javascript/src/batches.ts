// Batches: the content of one request. A batch keeps its ID and its bytes for every attempt.

export interface Batch {
  readonly id: string
  readonly events: readonly Uint8Array[]
  /** The body as it is sent; set by the first attempt. */
  body?: Uint8Array
  isCompressed?: boolean
}

const COMPRESS_FROM_BYTES = 1024
const encoder = new TextEncoder()
const COMMA = encoder.encode(',')
const END = encoder.encode(']}')

/** The bytes that a batch adds to its events. */
export const BATCH_OVERHEAD_BYTES = 200

export function joinEvents(id: string, events: readonly Uint8Array[]): Uint8Array {
  const begin = encoder.encode(`{"batch_id":${JSON.stringify(id)},"events":[`)
  const parts = [begin, ...events.flatMap((event, at) => (at === 0 ? [event] : [COMMA, event])), END]
  const joined = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0))
  let at = 0
  for (const part of parts) {
    joined.set(part, at)
    at += part.length
  }
  return joined
}

/** Set the body of the batch, once. */
export async function encodeBatch(batch: Batch): Promise<Uint8Array> {
  if (batch.body === undefined) {
    const body = joinEvents(batch.id, batch.events)
    batch.isCompressed = body.length >= COMPRESS_FROM_BYTES && typeof CompressionStream !== 'undefined'
    batch.body = batch.isCompressed ? await gzip(body) : body
  }
  return batch.body
}

async function gzip(body: Uint8Array): Promise<Uint8Array> {
  const stream = new Blob([body as BlobPart]).stream().pipeThrough(new CompressionStream('gzip'))
  return new Uint8Array(await new Response(stream).arrayBuffer())
}

/** Split a batch that is too large. No event of it was stored, so both halves get new IDs. */
export function splitBatch(batch: Batch, makeId: () => string): [Batch, Batch] {
  const middle = Math.ceil(batch.events.length / 2)
  return [
    { id: makeId(), events: batch.events.slice(0, middle) },
    { id: makeId(), events: batch.events.slice(middle) },
  ]
}

/** Return a batch of the events at all other positions. */
export function withoutEvents(batch: Batch, positions: ReadonlySet<number>, id: string): Batch {
  return { id, events: batch.events.filter((_, at) => !positions.has(at)) }
}

/** Return the positions of events that a 422 names: `events[3].type` names 3. */
export function readInvalidPositions(errors: unknown, count: number): Set<number> {
  const positions = new Set<number>()
  for (const error of Array.isArray(errors) ? errors : []) {
    const found = /^events\[(\d+)\]/.exec(String((error as { field?: unknown } | null)?.field))
    if (found !== null && Number(found[1]) < count) positions.add(Number(found[1]))
  }
  return positions
}
