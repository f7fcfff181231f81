// Exceptions as events.

import { type Attributes, cutText, type TelemetryEvent } from './events.js'

const DEEPEST_CAUSE = 5
const MOST_ERRORS = 5
const LONGEST_STACK = 48 * 1024

/** Return the event of an exception. Any value can be thrown: a value that is not an `Error` is converted to text. */
export function exceptionEvent(error: unknown, attributes?: Attributes): TelemetryEvent {
  const event: TelemetryEvent = {
    type: 'exception',
    severity: 'error',
    name: errorName(error),
    title: cutText(errorMessage(error) || errorName(error), 2000),
    details: cutText(describeStack(error, 0), LONGEST_STACK),
  }
  if (attributes !== undefined) event.attributes = attributes
  return event
}

/** Return the stack of an error, then those of its causes and of the errors that it collects. */
export function describeStack(error: unknown, depth: number = 0): string {
  if (!isErrorLike(error)) return `${errorName(error)}: ${errorMessage(error)}`
  const lines = [read(error, 'stack') || `${errorName(error)}: ${errorMessage(error)}`]
  if (depth < DEEPEST_CAUSE) {
    const { cause, errors } = error as { cause?: unknown; errors?: unknown }
    if (cause !== undefined) lines.push(`Caused by: ${describeStack(cause, depth + 1)}`)
    if (Array.isArray(errors)) {
      for (const each of errors.slice(0, MOST_ERRORS)) lines.push(`Collected: ${describeStack(each, depth + 1)}`)
    }
  }
  return lines.join('\n')
}

function errorName(error: unknown): string {
  if (!isErrorLike(error)) return 'Error'
  return read(error, 'name') || error.constructor?.name || 'Error'
}

function errorMessage(error: unknown): string {
  if (isErrorLike(error)) return read(error, 'message')
  if (typeof error === 'string') return error
  try {
    return typeof error === 'object' ? (JSON.stringify(error) ?? String(error)) : String(error)
  } catch {
    return '[unreadable]'
  }
}

/** Errors of another realm, such as those of `vm` and of Jest, are not instances of this realm's `Error`. */
function isErrorLike(error: unknown): error is Error {
  return error instanceof Error || (typeof error === 'object' && error !== null && 'message' in error && 'stack' in error)
}

function read(error: Error, member: 'name' | 'message' | 'stack'): string {
  try {
    return String(error[member] ?? '')
  } catch {
    return ''
  }
}
