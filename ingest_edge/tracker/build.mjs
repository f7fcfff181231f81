// Bundles the tracker into `built/`. With `--check` it writes nothing, and reports the files that are out of date.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { brotliCompressSync, brotliDecompressSync, constants, gunzipSync, gzipSync } from 'node:zlib';

import { build } from 'esbuild';

const BUILT = new URL('./built/', import.meta.url);
const { devDependencies } = JSON.parse(readFileSync(new URL('./package.json', import.meta.url)));
// The license of the bundled library, Apache-2.0, requires its notice.
const NOTICE = `/*! web-vitals ${devDependencies['web-vitals']}, Copyright Google LLC, Apache-2.0 */`;

const brotli = (plain) =>
  brotliCompressSync(plain, {
    params: {
      [constants.BROTLI_PARAM_QUALITY]: constants.BROTLI_MAX_QUALITY,
      [constants.BROTLI_PARAM_MODE]: constants.BROTLI_MODE_TEXT,
      [constants.BROTLI_PARAM_SIZE_HINT]: plain.length,
    },
  });
const gzip = (plain) => gzipSync(plain, { level: constants.Z_BEST_COMPRESSION });

// By suffix: how to compress and decompress.
const FORMS = {
  '': [(plain) => plain, (stored) => stored],
  '.br': [brotli, brotliDecompressSync],
  '.gz': [gzip, gunzipSync],
};

async function bundle(name, banner) {
  const { outputFiles } = await build({
    entryPoints: [`source/${name}`],
    absWorkingDir: fileURLToPath(new URL('.', import.meta.url)),
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2018',
    legalComments: 'none',
    banner: { js: banner },
    write: false,
    logLevel: 'warning',
  });
  return Buffer.from(outputFiles[0].contents);
}

// Compressed bytes differ between versions of zlib, so files are compared decompressed.
function isCurrent(file, plain, unpack) {
  try {
    return unpack(readFileSync(new URL(file, BUILT))).equals(plain);
  } catch {
    return false;
  }
}

const checking = process.argv.includes('--check');
if (!checking) mkdirSync(BUILT, { recursive: true });
for (const [name, banner] of [
  ['v1.js', ''],
  ['vitals.js', NOTICE],
]) {
  const plain = await bundle(name, banner);
  for (const [suffix, [pack, unpack]] of Object.entries(FORMS)) {
    const file = name + suffix;
    if (!checking) {
      const packed = pack(plain);
      writeFileSync(new URL(file, BUILT), packed);
      console.log(`${file}: ${packed.length} bytes`);
    } else if (!isCurrent(file, plain, unpack)) {
      console.error(`built/${file} is out of date: run node build.mjs`);
      process.exitCode = 1;
    }
  }
}
