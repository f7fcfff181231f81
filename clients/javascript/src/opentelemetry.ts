// OpenTelemetry in one call, with the packages that the application has installed.

import * as modules from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { readVariable, splitUrl } from './settings.js'

export interface OpenTelemetryOptions {
  /** Default: `OTEL_SERVICE_NAME`. */
  serviceName?: string
  /** The address of Pharos, with or without `/api`. Default: `PHAROS_URL`. */
  url?: string
  /** An ingest key, `phr_ing_…`. Default: `PHAROS_INGEST_KEY`. */
  ingestKey?: string
  /** Becomes `deployment.environment.name`. Default: `PHAROS_ENVIRONMENT`. */
  environment?: string
  /** Becomes `service.version`. Default: `PHAROS_RELEASE`. */
  release?: string
  /** Instrumentations instead of those of `@opentelemetry/auto-instrumentations-node`. */
  instrumentations?: unknown[]
}

/** The running SDK. */
export interface OpenTelemetryHandle {
  /** Send what waits, and end the SDK. */
  shutdown(): Promise<void>
}

interface NodeSdk {
  start(): void
  shutdown(): Promise<void>
}

/**
 * Start the OpenTelemetry SDK: traces, metrics and logs go to Pharos as OTLP/HTTP JSON. Call it before the application
 * loads the libraries that are to be instrumented. `OTEL_*` variables that are set win over the options.
 *
 * Needs `@opentelemetry/api` and `@opentelemetry/sdk-node`; `@opentelemetry/auto-instrumentations-node` is used if it is
 * installed. Throws an `Error` that says what is missing.
 */
export function setupOpenTelemetry(options: OpenTelemetryOptions = {}): OpenTelemetryHandle {
  for (const [name, value] of Object.entries(otlpVariables(options))) process.env[name] ??= value
  const require = modules.createRequire(join(process.cwd(), 'package.json'))
  const { NodeSDK } = load(require, '@opentelemetry/sdk-node') as { NodeSDK: new (options: object) => NodeSdk }
  const instrumentations = options.instrumentations ?? findInstrumentations(require)
  instrumentImports(require)
  const sdk = new NodeSDK({ instrumentations })
  sdk.start()
  const shutdown = once(() => sdk.shutdown())
  process.once('beforeExit', () => void shutdown().catch(() => {}))
  endAtSignal('SIGTERM', shutdown)
  return { shutdown }
}

/** Return the variables with which the unmodified SDK exports to Pharos. Throws an `Error` without an address and a key. */
export function otlpVariables(options: OpenTelemetryOptions): Record<string, string> {
  const url = options.url ?? readVariable('PHAROS_URL')
  const found = url === undefined ? undefined : splitUrl(url)
  const key = options.ingestKey ?? (found?.key || readVariable('PHAROS_INGEST_KEY'))
  const variables: Record<string, string> = {
    OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
    OTEL_TRACES_EXPORTER: 'otlp',
    OTEL_METRICS_EXPORTER: 'otlp',
    OTEL_LOGS_EXPORTER: 'otlp',
    OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
    // The others ask the metadata services of clouds, which takes time elsewhere.
    OTEL_NODE_RESOURCE_DETECTORS: 'env,host,os,process',
  }
  if (found !== undefined && key !== undefined) {
    variables['OTEL_EXPORTER_OTLP_ENDPOINT'] = `${found.api}/v1/otlp`
    variables['OTEL_EXPORTER_OTLP_HEADERS'] = `Authorization=Bearer%20${key}`
  } else if (readVariable('OTEL_EXPORTER_OTLP_ENDPOINT') === undefined) {
    throw new Error('setupOpenTelemetry: set PHAROS_URL and PHAROS_INGEST_KEY, or pass `url` and `ingestKey`.')
  }
  if (options.serviceName !== undefined) variables['OTEL_SERVICE_NAME'] = options.serviceName
  const resource = {
    'deployment.environment.name': options.environment ?? readVariable('PHAROS_ENVIRONMENT'),
    'service.version': options.release ?? readVariable('PHAROS_RELEASE'),
  }
  const attributes = Object.entries(resource).filter(([, value]) => value !== undefined)
  if (attributes.length > 0) {
    variables['OTEL_RESOURCE_ATTRIBUTES'] = attributes
      .map(([name, value]) => `${name}=${encodeURIComponent(value as string)}`)
      .join(',')
  }
  return variables
}

function load(require: NodeJS.Require, name: string): unknown {
  try {
    return require(name)
  } catch (error) {
    if ((error as { code?: string }).code !== 'MODULE_NOT_FOUND') throw error
    throw new Error(`setupOpenTelemetry: ${name} is not installed; npm install @opentelemetry/api ${name}`)
  }
}

function findInstrumentations(require: NodeJS.Require): unknown[] {
  const name = '@opentelemetry/auto-instrumentations-node'
  try {
    require.resolve(name)
  } catch {
    return []
  }
  const { getNodeAutoInstrumentations } = require(name) as { getNodeAutoInstrumentations: () => unknown[] }
  return getNodeAutoInstrumentations()
}

/** Let instrumentations also see what is loaded with `import`. `require` needs no help. */
function instrumentImports(require: NodeJS.Require): void {
  // Absent before Node.js 18.19.
  const { register } = modules as { register?: (specifier: string, parent: URL) => void }
  try {
    register?.('@opentelemetry/instrumentation/hook.mjs', pathToFileURL(require.resolve('@opentelemetry/sdk-node')))
  } catch {
    // An application in CommonJS works without.
  }
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => (running ??= run())
}

function endAtSignal(signal: NodeJS.Signals, shutdown: () => Promise<void>): void {
  const end = (): void => {
    // A handler of the application decides itself when the process ends.
    const isAlone = process.listenerCount(signal) === 1
    void shutdown()
      .catch(() => {})
      .then(() => {
        process.off(signal, end)
        if (isAlone) process.kill(process.pid, signal)
      })
  }
  process.on(signal, end)
}
