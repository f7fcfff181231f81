// What the OpenTelemetry SDK of each language needs besides the environment variables that all read.

export interface Language {
  id: string;
  label: string;
  /** The protocol that its exporter speaks; JSON needs no setting of the installation. */
  protocol: 'http/json' | 'http/protobuf';
  /** The value of `OTEL_TRACES_EXPORTER` and its siblings, if it is not `otlp`: it then decides the protocol. */
  exporter?: string;
  /** How to install the SDK and start an application with it. */
  start: string;
}

export const LANGUAGES: Language[] = [
  {
    id: 'node',
    label: 'Node.js',
    protocol: 'http/json',
    start: 'npm install @opentelemetry/api @opentelemetry/auto-instrumentations-node\nnode --require @opentelemetry/auto-instrumentations-node/register server.js',
  },
  {
    id: 'python',
    label: 'Python',
    // The exporter of `otlp` knows only protobuf and gRPC; the one in JSON is a beta version, which pip installs only if it is named.
    protocol: 'http/json',
    exporter: 'otlp_json_http',
    start: "pip install opentelemetry-distro opentelemetry-instrumentation-logging 'opentelemetry-exporter-otlp-json-http>=0.66b0'\nopentelemetry-bootstrap -a install\nopentelemetry-instrument python app.py",
  },
  {
    id: 'go',
    label: 'Go',
    protocol: 'http/protobuf',
    start: 'go get go.opentelemetry.io/otel/sdk go.opentelemetry.io/contrib/exporters/autoexport\n# autoexport.NewSpanExporter(ctx) reads these variables.',
  },
  {
    id: 'java',
    label: 'Java',
    protocol: 'http/protobuf',
    start: 'java -javaagent:opentelemetry-javaagent.jar -jar app.jar',
  },
  {
    id: 'ruby',
    label: 'Ruby',
    protocol: 'http/protobuf',
    start: 'bundle add opentelemetry-sdk opentelemetry-exporter-otlp opentelemetry-instrumentation-all\n# OpenTelemetry::SDK.configure { |c| c.use_all } reads these variables.',
  },
  {
    id: 'dotnet',
    label: '.NET',
    protocol: 'http/protobuf',
    start: 'dotnet add package OpenTelemetry.Extensions.Hosting\ndotnet add package OpenTelemetry.Exporter.OpenTelemetryProtocol\n# services.AddOpenTelemetry().UseOtlpExporter() reads these variables.',
  },
];

/** Return the environment variables as lines of a shell. */
export function writeVariables(language: Language, origin: string, key: string, service: string, environment: string): string {
  const variables: Record<string, string> = {
    OTEL_SERVICE_NAME: service,
    OTEL_RESOURCE_ATTRIBUTES: `deployment.environment.name=${environment}`,
    OTEL_EXPORTER_OTLP_ENDPOINT: `${origin}/api/v1/otlp`,
    ...(language.exporter ? {} : { OTEL_EXPORTER_OTLP_PROTOCOL: language.protocol }),
    OTEL_EXPORTER_OTLP_HEADERS: `Authorization=Bearer%20${key}`,
    OTEL_TRACES_EXPORTER: language.exporter ?? 'otlp',
    OTEL_METRICS_EXPORTER: language.exporter ?? 'otlp',
    OTEL_LOGS_EXPORTER: language.exporter ?? 'otlp',
  };
  return Object.entries(variables).map(([name, value]) => `export ${name}=${value}`).join('\n');
}

export type Probe = 'accepted' | 'no-protobuf' | 'failed';

// An edge knows a new key after at most 5 s.
const KEY_DELAY_MS = 5000;

/** Send an empty export with the key, and return whether the installation accepts the protocol. */
export async function probeProtocol(protocol: Language['protocol'], key: string): Promise<Probe> {
  const first = await probeOnce(protocol, key);
  if (first !== 'failed') return first;
  await new Promise((resolve) => setTimeout(resolve, KEY_DELAY_MS));
  return probeOnce(protocol, key);
}

async function probeOnce(protocol: Language['protocol'], key: string): Promise<Probe> {
  const isJson = protocol === 'http/json';
  const response = await fetch('/api/v1/otlp/v1/traces', {
    method: 'POST',
    credentials: 'omit',
    headers: { authorization: `Bearer ${key}`, 'content-type': isJson ? 'application/json' : 'application/x-protobuf' },
    body: isJson ? '{}' : new Uint8Array(),
  });
  if (response.ok) return 'accepted';
  return response.status === 415 && !isJson ? 'no-protobuf' : 'failed';
}
