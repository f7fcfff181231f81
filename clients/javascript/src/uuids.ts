// UUIDs without a global `crypto`, as in Node.js 18.

/** Return a random UUID (version 4). It is an identifier, not a secret. */
export function makeUuid(): string {
  const source = (globalThis as { crypto?: Crypto }).crypto
  if (source?.randomUUID !== undefined) return source.randomUUID()
  return 'xxxxxxxx-xxxx-4xxx-yxxx-xxxxxxxxxxxx'.replace(/[xy]/g, (mark) => {
    const digit = Math.floor(Math.random() * 16)
    return (mark === 'x' ? digit : (digit & 3) | 8).toString(16)
  })
}
