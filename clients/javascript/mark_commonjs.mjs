// The package is ESM; this file makes Node.js load `dist/cjs` as CommonJS.
import { writeFileSync } from 'node:fs'

writeFileSync(new URL('dist/cjs/package.json', import.meta.url), '{"type": "commonjs"}\n')
