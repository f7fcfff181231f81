// Sends the output of `console` as logs, on request.

import { describeStack } from './exceptions.js'
import { CONSOLE_SEVERITIES, type ConsoleMethod } from './settings.js'
import type { Severity } from './events.js'

/** The original methods, from before the first client replaced them, for the client's own warnings. */
export const originalConsole: Pick<Console, ConsoleMethod> = { ...pick() }

function pick(): Pick<Console, ConsoleMethod> {
  const { debug, log, info, warn, error } = console
  return { debug, log, info, warn, error }
}

/** Call `log` for the output of these methods, which still print. Return a function that ends it. */
export function captureConsole(
  methods: readonly ConsoleMethod[],
  log: (severity: Severity, message: string, details?: string) => void,
): () => void {
  let isInside = false
  const patched = methods.map((method) => {
    const original = console[method]
    const replacement = (...values: unknown[]): void => {
      original.apply(console, values)
      // The functions called below may print too.
      if (isInside) return
      isInside = true
      try {
        const error = values.find((value) => value instanceof Error)
        log(CONSOLE_SEVERITIES[method], formatValues(values), error === undefined ? undefined : describeStack(error))
      } finally {
        isInside = false
      }
    }
    console[method] = replacement
    return { method, original, replacement }
  })
  return () => {
    for (const { method, original, replacement } of patched) {
      // Another library may have replaced the method meanwhile, and calls this one.
      if (console[method] === replacement) console[method] = original
    }
  }
}

/**
 * Return the values as one line of text, as `console` prints them: `%s`, `%d` and similar placeholders use the values
 * in order.
 */
export function formatValues(values: readonly unknown[]): string {
  const [first, ...rest] = values
  if (typeof first !== 'string' || rest.length === 0) return values.map(formatValue).join(' ')
  const text = first.replace(/%[sdifoOjc%]/g, (mark) => {
    if (mark === '%%') return '%'
    if (rest.length === 0) return mark
    const value = rest.shift()
    if (mark === '%c') return ''
    if (mark === '%d') return String(Number(value))
    if (mark === '%i') return String(Math.trunc(Number(value)))
    return formatValue(value)
  })
  return [text, ...rest.map(formatValue)].join(' ')
}

function formatValue(value: unknown): string {
  if (typeof value === 'string') return value
  if (value instanceof Error) return `${value.name}: ${value.message}`
  if (typeof value === 'object' && value !== null) {
    try {
      return JSON.stringify(value) ?? String(value)
    } catch {
      return Object.prototype.toString.call(value)
    }
  }
  return String(value)
}
