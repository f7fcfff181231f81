// Tasks that run when a signal ends the process. All parts of the package share one handler per signal: each part must
// know whether the application has its own handler.

const SIGNALS = ['SIGTERM', 'SIGINT'] as const

type Task = () => Promise<unknown>

interface Shared {
  tasks: Set<Task>
  handler?: (signal: NodeJS.Signals) => void
  noteRemoval?: (event: string | symbol) => void
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
  if (shared.handler === undefined) addHandler()
  return () => {
    shared.tasks.delete(task)
    if (shared.tasks.size === 0) removeHandler()
  }
}

function addHandler(): void {
  // A handler of `process.once` is gone when the next handler of the same signal runs. Handlers of one signal run
  // without a pause between them, so a handler that was removed since the last pause may have handled the signal.
  const removed = new Set<string | symbol>()
  const noteRemoval = (shared.noteRemoval = (event) => {
    removed.add(event)
    queueMicrotask(() => removed.delete(event))
  })
  const handler = (shared.handler = (signal) => {
    const isAlone = process.listenerCount(signal) === 1 && !removed.has(signal)
    void end(signal, isAlone)
  })
  process.on('removeListener', noteRemoval)
  for (const signal of SIGNALS) process.on(signal, handler)
}

async function end(signal: NodeJS.Signals, isAlone: boolean): Promise<void> {
  await Promise.allSettled([...shared.tasks].map((task) => task()))
  if (!isAlone) return
  removeHandler()
  process.kill(process.pid, signal)
}

function removeHandler(): void {
  const { handler, noteRemoval } = shared
  if (handler === undefined || noteRemoval === undefined) return
  process.off('removeListener', noteRemoval)
  for (const signal of SIGNALS) process.off(signal, handler)
  delete shared.handler
  delete shared.noteRemoval
}
