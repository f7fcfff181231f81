// The DSN of this installation, and how an application starts Sentry's SDK with it.

export interface SentrySnippet {
  id: string;
  label: string;
  code: string;
}

/** Return `https://INGEST_KEY@HOST/1`. The key names the environment; SDKs insist on a number at the end. */
export function writeDsn(origin: string, key: string): string {
  const { protocol, host, pathname } = new URL(origin);
  return `${protocol}//${key}@${host}${pathname.replace(/\/$/, '')}/1`;
}

export function sentrySnippets(dsn: string): SentrySnippet[] {
  return [
    {
      id: 'python',
      label: 'Python',
      code: `# pip install sentry-sdk
import sentry_sdk

sentry_sdk.init(dsn="${dsn}", traces_sample_rate=1.0)`,
    },
    {
      id: 'node',
      label: 'Node.js',
      code: `// npm install @sentry/node
// Save it as instrument.cjs and start with: node --require ./instrument.cjs server.js
const Sentry = require('@sentry/node');

Sentry.init({ dsn: '${dsn}', tracesSampleRate: 1.0 });`,
    },
    {
      id: 'browser',
      label: 'Browser',
      code: `// npm install @sentry/browser
import * as Sentry from '@sentry/browser';

Sentry.init({ dsn: '${dsn}', integrations: [Sentry.browserTracingIntegration()], tracesSampleRate: 1.0 });`,
    },
  ];
}
