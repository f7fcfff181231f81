// OpenTelemetry in one call, with the packages that the application has installed.

import * as modules from 'node:module'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { beforeEnd } from './end_signals.js'
import { chooseKey, readResourceAttributes, readVariable, splitUrl } from './settings.js'

export interface OpenTelemetryOptions {
  /** Default: `OTEL_SERVICE_NAME`. */
  serviceName?: string
  /** The address of Pharos, with or without `/api`. Default: `PHAROS_URL`. */
  url?: string
  /** An ingest key, `phr_ing_…`. Default: `PHAROS_INGEST_KEY`. */
  ingestKey?: string
  /** Becomes `deployment.environment.name`. Default: the one in `OTEL_RESOURCE_ATTRIBUTES`, or `PHAROS_ENVIRONMENT`. */
  environment?: string
  /** Becomes `service.version`. Default: the one in `OTEL_RESOURCE_ATTRIBUTES`, or `PHAROS_RELEASE`. */
  release?: string
  /** Instrumentations instead of those of `@opentelemetry/auto-instrumentations-node`. */
  instrumentations?: unknown[]
}

/** The running SDK. */
export interface OpenTelemetryHandle {
  /** Send all buffered data, and end the SDK. */
  shutdown(): Promise<void>
}

interface NodeSdk {
  start(): void
  shutdown(): Promise<void>
}

/**
 * Start the OpenTelemetry SDK: traces, metrics and logs go to Pharos as OTLP/HTTP JSON. Call it before the application
 * loads the libraries that are to be instrumented. Options take precedence over `OTEL_*` variables, and these over
 * `PHAROS_*` variables.
 *
 * Needs `@opentelemetry/api` and `@opentelemetry/sdk-node`; `@opentelemetry/auto-instrumentations-node` is used if it is
 * installed. Throws an `Error` that names the missing package or setting.
 */
export function setupOpenTelemetry(options: OpenTelemetryOptions = {}): OpenTelemetryHandle {
  Object.assign(process.env, otlpVariables(options))
  const require = modules.createRequire(join(process.cwd(), 'package.json'))
  const { NodeSDK } = load(require, '@opentelemetry/sdk-node') as { NodeSDK: new (options: object) => NodeSdk }
  const instrumentations = options.instrumentations ?? findInstrumentations(require)
  instrumentImports(require)
  const sdk = new NodeSDK({ instrumentations })
  sdk.start()
  const shutdown = once(() => sdk.shutdown())
  process.once('beforeExit', () => void shutdown().catch(() => {}))
  beforeEnd(shutdown)
  return { shutdown }
}

const DEFAULTS = {
  OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
  OTEL_EXPORTER_OTLP_COMPRESSION: 'gzip',
  OTEL_TRACES_EXPORTER: 'otlp',
  OTEL_METRICS_EXPORTER: 'otlp',
  OTEL_LOGS_EXPORTER: 'otlp',
  // The others query the metadata services of clouds, which takes time elsewhere.
  OTEL_NODE_RESOURCE_DETECTORS: 'env,host,os,process',
}

/**
 * Return the variables to set so that the unmodified SDK exports to Pharos. Throws an `Error` if neither options nor
 * variables say where to.
 */
export function otlpVariables(options: OpenTelemetryOptions): Record<string, string> {
  const variables: Record<string, string> = { ...exporterVariables(options) }
  for (const [name, value] of Object.entries(DEFAULTS)) if (readVariable(name) === undefined) variables[name] = value
  if (options.serviceName !== undefined) variables['OTEL_SERVICE_NAME'] = options.serviceName
  const known = readResourceAttributes()
  const attributes = {
    ...known,
    'deployment.environment.name':
      options.environment ?? known['deployment.environment.name'] ?? readVariable('PHAROS_ENVIRONMENT'),
    'service.version': options.release ?? known['service.version'] ?? readVariable('PHAROS_RELEASE'),
  }
  const texts = Object.entries(attributes)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => `${name}=${encodeURIComponent(value as string)}`)
  if (texts.length > 0) variables['OTEL_RESOURCE_ATTRIBUTES'] = texts.join(',')
  return variables
}

/** The key is set for each signal, together with its endpoint: it must not be sent to an endpoint of another server. */
function exporterVariables(options: OpenTelemetryOptions): Record<string, string> {
  const isExplicit = options.url !== undefined || options.ingestKey !== undefined
  if (!isExplicit && readVariable('OTEL_EXPORTER_OTLP_ENDPOINT') !== undefined) return {}
  const url = options.url ?? readVariable('PHAROS_URL')
  const found = url === undefined ? undefined : splitUrl(url)
  const key = found === undefined ? undefined : chooseKey(options.ingestKey, found)
  if (found === undefined || key === undefined) {
    throw new Error('setupOpenTelemetry: set PHAROS_URL and PHAROS_INGEST_KEY, or pass `url` and `ingestKey`.')
  }
  const variables: Record<string, string> = {}
  for (const signal of ['traces', 'metrics', 'logs']) {
    const prefix = `OTEL_EXPORTER_OTLP_${signal.toUpperCase()}`
    if (!isExplicit && readVariable(`${prefix}_ENDPOINT`) !== undefined) continue
    variables[`${prefix}_ENDPOINT`] = `${found.api}/v1/otlp/v1/${signal}`
    variables[`${prefix}_HEADERS`] = `Authorization=Bearer%20${key}`
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
    // An application in CommonJS works without this.
  }
}

function once(run: () => Promise<void>): () => Promise<void> {
  let running: Promise<void> | undefined
  return () => (running ??= run())
}
