function e(e,t){let{protocol:n,host:r,pathname:i}=new URL(e);return`${n}//${t}@${r}${i.replace(/\/$/,``)}/1`}function t(e){return[{id:`python`,label:`Python`,code:`# pip install sentry-sdk
import sentry_sdk

sentry_sdk.init(dsn="${e}", traces_sample_rate=1.0)`},{id:`node`,label:`Node.js`,code:`// npm install @sentry/node
// Save it as instrument.cjs and start with: node --require ./instrument.cjs server.js
const Sentry = require('@sentry/node');

Sentry.init({ dsn: '${e}', tracesSampleRate: 1.0 });`},{id:`browser`,label:`Browser`,code:`// npm install @sentry/browser
import * as Sentry from '@sentry/browser';

Sentry.init({ dsn: '${e}', integrations: [Sentry.browserTracingIntegration()], tracesSampleRate: 1.0 });`}]}export{e as n,t};