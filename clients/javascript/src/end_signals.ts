// What runs when a signal ends the process. All parts of the package share one handler per signal: each part must know
// whether the application has a handler of its own.

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

type Task = () => Promise<unknown>

interface Shared {
  tasks: Set<Task>
  handler?: (signal: NodeJS.Signals) => void
}

// The package may be loaded both as ESM and as CommonJS.
const KEY = Symbol.for('pharos-client.end-signals')
const shared: Shared = ((globalThis as { [KEY]?: Shared })[KEY] ??= { tasks: new Set() })

/**
 * Run a task when SIGTERM or SIGINT arrives, then let the signal end the process. If the application handles the signal, it
 * decides itself when the process ends. Return a function that removes the task.
 */
export function beforeEnd(task: Task): () => void {
  shared.tasks.add(task)
  if (shared.handler === undefined) {
    const handler = (shared.handler = (signal) => void end(signal))
    for (const signal of SIGNALS) process.on(signal, handler)
  }
  return () => {
    shared.tasks.delete(task)
    if (shared.tasks.size === 0) removeHandler()
  }
}

async function end(signal: NodeJS.Signals): Promise<void> {
  const isAlone = process.listenerCount(signal) === 1
  await Promise.allSettled([...shared.tasks].map((task) => task()))
  if (!isAlone) return
  removeHandler()
  process.kill(process.pid, signal)
}

function removeHandler(): void {
  if (shared.handler === undefined) return
  for (const signal of SIGNALS) process.off(signal, shared.handler)
  delete shared.handler
}
