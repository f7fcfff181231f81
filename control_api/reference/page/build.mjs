// Takes Swagger UI's own files into `built/`, compressed. With `--check` nothing is written: it says which file is not
// what the package gives.
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { constants, gunzipSync, gzipSync } from 'node:zlib';

const PACKAGE = new URL('./node_modules/swagger-ui-dist/', import.meta.url);
const BUILT = new URL('./built/', import.meta.url);
const SERVED = ['swagger-ui-bundle.js', 'swagger-ui.css'];
// The licence's terms: both go with the files, and so do those of the libraries inside.
const NOTICES = ['LICENSE', 'NOTICE', 'swagger-ui-bundle.js.LICENSE.txt'];

// The maps are not served: browsers would ask for them in vain.
const withoutMap = (plain) => Buffer.from(plain.toString().replace(/\n\/[/*]# sourceMappingURL=[^\n]*\n?$/, '\n'));
const gzip = (plain) => gzipSync(plain, { level: constants.Z_BEST_COMPRESSION });

const files = [
  ...SERVED.map((name) => [`${name}.gz`, withoutMap(readFileSync(new URL(name, PACKAGE))), gzip, gunzipSync]),
  ...NOTICES.map((name) => [name, readFileSync(new URL(name, PACKAGE)), (plain) => plain, (stored) => stored]),
];

// Compressed bytes differ between versions of zlib, so files are compared by what they hold.
function same(file, plain, unpack) {
  try {
    return unpack(readFileSync(new URL(file, BUILT))).equals(plain);
  } catch {
    return false;
  }
}

const checking = process.argv.includes('--check');
if (!checking) mkdirSync(BUILT, { recursive: true });
for (const [file, plain, pack, unpack] of files) {
  if (!checking) {
    const packed = pack(plain);
    writeFileSync(new URL(file, BUILT), packed);
    console.log(`${file}: ${packed.length} bytes`);
  } else if (!same(file, plain, unpack)) {
    console.error(`built/${file} is not what the package gives: run node build.mjs`);
    process.exitCode = 1;
  }
}
