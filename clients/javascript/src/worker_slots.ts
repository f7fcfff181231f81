// Numbers for workers of one queue on this machine, which a restarted worker gets again.

import { createServer } from 'node:net'
import { hostname } from 'node:os'

const MOST = 256

/** A claimed number; `release` lets another worker have it. */
export interface Slot {
  /** The same text for the worker that gets this number next, and for no other one at the same time. */
  readonly name: string
  release(): void
}

/**
 * Claim the lowest number of this name that no other worker on this machine holds. Return undefined if that cannot be
 * known: outside of Linux, and with a Node.js that has no abstract sockets (before 20).
 *
 * A number is an abstract socket without connections. The system closes it when the process ends for any reason.
 */
export async function claimSlot(name: string): Promise<Slot | undefined> {
  if (process.platform !== 'linux') return undefined
  for (let number = 0; number < MOST; number += 1) {
    const server = createServer((socket) => socket.destroy()).unref()
    const outcome = await new Promise<string | undefined>((resolve) => {
      server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'))
      // Processes of `node:cluster` share sockets that are not exclusive.
      server.listen({ path: `\0pharos-client/${name}/${number}`, exclusive: true }, () => resolve(undefined))
    })
    if (outcome === undefined) return { name: `${hostname()}/${name}/${number}`, release: () => server.close() }
    if (outcome !== 'EADDRINUSE') return undefined
  }
  return undefined
}
