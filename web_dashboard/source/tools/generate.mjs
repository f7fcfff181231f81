// Writes `generated/`: the OpenAPI document of this checkout, and the typed client of its operations.
import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { createClient } from '@hey-api/openapi-ts';

const root = process.env.PHAROS_ROOT ? `${process.env.PHAROS_ROOT}/` : fileURLToPath(new URL('../../../', import.meta.url));
const folder = fileURLToPath(new URL('../generated/', import.meta.url));
const venv = `${root}.venv/bin/python`;
const python = process.env.PHAROS_PYTHON ?? (existsSync(venv) ? venv : 'python3');
const code = `import sys, orjson; from control_api.reference.load_document import load_document
sys.stdout.buffer.write(orjson.dumps(load_document()))`;

mkdirSync(folder, { recursive: true });
const document = execFileSync(python, ['-c', code], {
  cwd: root,
  env: { ...process.env, PYTHONPATH: root },
  maxBuffer: 64 * 1024 * 1024,
});
writeFileSync(`${folder}openapi.json`, document);
await createClient({
  input: `${folder}openapi.json`,
  output: { path: `${folder}client`, clean: true },
  logs: { level: 'warn' },
  plugins: [
    { name: '@hey-api/client-fetch', runtimeConfigPath: false },
    '@hey-api/typescript',
    { name: '@hey-api/sdk' },
  ],
});
