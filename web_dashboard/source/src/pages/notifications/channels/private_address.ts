// Addresses of the operator's own network: channels reach them only if the operator allows it.

const PRIVATE = [/^127\./, /^10\./, /^192\.168\./, /^172\.(1[6-9]|2\d|3[01])\./, /^100\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\./, /^\[(::1|f[cd][0-9a-f]{2}:.*)\]$/];

/** Return the host of a URL if it is a private address or this machine; else undefined. Names are not looked up. */
export function privateHost(text: string): string | undefined {
  let host: string;
  try {
    host = new URL(text).hostname;
  } catch {
    return undefined;
  }
  return host === 'localhost' || host.endsWith('.localhost') || PRIVATE.some((pattern) => pattern.test(host)) ? host : undefined;
}
