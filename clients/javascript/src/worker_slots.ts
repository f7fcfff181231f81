// Numbers for workers of one queue on this machine, which a restarted worker gets again.

import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { hostname } from 'node:os'

const MOST = 256
// In this order: a pod's ID is in the path of the first one, and stays the same if its sandbox is replaced.
const FILES_OF_CONTAINERS = ['/etc/hosts', '/etc/hostname', '/etc/resolv.conf']
// A container's or a pod's.
const ID = /[0-9a-f-]{32,64}/g

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
  // Containers may share a host name and see only their own sockets, so the name says which container it is.
  const prefix = `${hostname()} ${readContainer()} ${name}`
  for (let number = 0; number < MOST; number += 1) {
    const slot = `${prefix}/${number}`
    const server = createServer((socket) => socket.destroy()).unref()
    const outcome = await new Promise<string | undefined>((resolve) => {
      server.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'))
      // A digest, because a path has at most 107 bytes. Processes of `node:cluster` share what is not exclusive.
      server.listen({ path: `\0pharos-client/${digest(slot)}`, exclusive: true }, () => resolve(undefined))
    })
    if (outcome === undefined) return { name: slot, release: () => server.close() }
    if (outcome !== 'EADDRINUSE') return undefined
  }
  return undefined
}

function readContainer(): string {
  try {
    return findContainer(readFileSync('/proc/self/mountinfo', 'utf8'))
  } catch {
    return ''
  }
}

/**
 * Return the ID of the container or pod, which it keeps when it is restarted; '' outside of one. Container engines mount
 * files from a folder of the container, in the format of /proc/self/mountinfo:
 * "9 1 8:1 /var/lib/docker/containers/ID/hosts /etc/hosts …".
 */
export function findContainer(mounts: string): string {
  const found = new Map<string, string>()
  for (const line of mounts.split('\n')) {
    const [, , , root, file] = line.split(' ')
    // The last one: the engine itself may run in a container.
    if (root !== undefined && file !== undefined) found.set(file, root.match(ID)?.at(-1) ?? '')
  }
  return FILES_OF_CONTAINERS.map((file) => found.get(file)).find((id) => id) ?? ''
}

function digest(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 32)
}
