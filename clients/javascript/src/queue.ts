// The queue of events that wait to be sent.

import { BATCH_OVERHEAD_BYTES } from './batches.js'

/** A first-in, first-out queue of encoded events, limited by their number and their bytes. */
export class EventQueue {
  private items: Uint8Array[] = []
  private head = 0
  private size = 0

  constructor(
    private readonly maxEvents: number,
    private readonly maxBytes: number,
  ) {}

  get count(): number {
    return this.items.length - this.head
  }

  get bytes(): number {
    return this.size
  }

  /** Add an event. Return false if the queue is full. */
  add(event: Uint8Array): boolean {
    if (this.count >= this.maxEvents || this.size + event.length > this.maxBytes) return false
    this.items.push(event)
    this.size += event.length
    return true
  }

  /** Remove and return the oldest events: at least one if there is one, otherwise at most this many events and bytes. */
  take(maxEvents: number, maxBytes: number): Uint8Array[] {
    const taken: Uint8Array[] = []
    let bytes = BATCH_OVERHEAD_BYTES
    while (taken.length < maxEvents && this.count > 0) {
      const next = this.items[this.head] as Uint8Array
      if (taken.length > 0 && bytes + next.length + 1 > maxBytes) break
      taken.push(next)
      bytes += next.length + 1
      this.size -= next.length
      this.head += 1
    }
    // Removing from the front of an array takes time proportional to its length, so many events are removed at once.
    if (this.head > 1024 || this.head === this.items.length) {
      this.items = this.items.slice(this.head)
      this.head = 0
    }
    return taken
  }
}
