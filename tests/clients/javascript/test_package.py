"""The package as applications install it: its files, its types and its dependencies."""

import json
import subprocess
from pathlib import Path

from tests.support.javascript_client import CLIENT, JavascriptClient, node_environment

_TYPED = """
import { Queue, Worker } from 'bullmq'
import { captureException, heartbeat, init, log, requestMiddleware } from 'pharos-client'
import type { Client, Problem, TelemetryEvent } from 'pharos-client'
import { type Watch, watchQueue, watchWorker } from 'pharos-client/bullmq'
import { setupOpenTelemetry } from 'pharos-client/opentelemetry'
import { winstonTransport } from 'pharos-client/winston'
import http from 'node:http'
import winston from 'winston'

const onError = ({ kind, errors }: Problem): void => log.debug(kind, { errors })
const client: Client = init({ service: 'shop', captureConsole: ['warn'], onError })
const event: TelemetryEvent = { type: 'metric', name: 'orders', payload: { value: 3 } }
client.capture(event)
captureException('text', { order: 7 })
http.createServer((request, response) => requestMiddleware()(request, response, () => response.end()))
const connection = { url: 'redis://localhost' }
const queue = new Queue<{ to: string }>('mail', { connection })
const worker = new Worker<{ to: string }, number>('mail', async (job) => job.data.to.length, { connection })
const watches: Watch[] = [watchQueue(queue, { intervalMs: 5000 }), watchWorker(worker, { workerId: 'mail-1' })]
const length: Promise<number> = heartbeat(undefined)(async () => watches.length)
const twice: (n: number) => Promise<number> = heartbeat('https://p.example/ping/k').wrap((n: number) => n * 2)
const shutdown: () => Promise<void> = setupOpenTelemetry().shutdown
winston.createLogger({ transports: [winstonTransport(client) as never] })
// @ts-expect-error: no such type of event
client.capture({ type: 'nonsense' })
export { length, shutdown, twice }
"""
_OPTIONS = {
    "compilerOptions": {
        "target": "ES2022",
        "module": "NodeNext",
        "moduleResolution": "NodeNext",
        "strict": True,
        "noEmit": True,
        "types": ["node"],
        "skipLibCheck": True,
    },
    "files": ["shop.ts", "shop.cts"],
}


def test_types_in_an_application(client: JavascriptClient, app: Path) -> None:
    """The types of BullMQ fit, in ESM and in CommonJS."""
    (app / "package.json").write_text('{"type": "module"}')
    (app / "shop.ts").write_text(_TYPED)
    (app / "shop.cts").write_text(_TYPED.replace("import http from", "import * as http from"))
    (app / "tsconfig.json").write_text(json.dumps(_OPTIONS))
    compiler = str(client.modules / "typescript" / "bin" / "tsc")
    done = subprocess.run(
        ["node", compiler], cwd=app, env=node_environment(), capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout


def test_package_has_its_exports_and_no_dependency(client: JavascriptClient) -> None:
    command = ["npm", "pack", "--dry-run", "--json", "--ignore-scripts"]
    done = subprocess.run(command, cwd=client.build, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    listed = json.loads(done.stdout)
    (packed,) = listed if isinstance(listed, list) else listed.values()
    files = {file["path"] for file in packed["files"]}
    document = json.loads((CLIENT / "package.json").read_text())
    exported = [
        target.removeprefix("./")
        for conditions in document["exports"].values()
        if isinstance(conditions, dict)
        for targets in conditions.values()
        for target in targets.values()
    ]
    assert len(exported) == 24 and not set(exported) - files
    assert "dist/cjs/package.json" in files and not any(path.startswith("test/") for path in files)
    assert "dependencies" not in document
    assert set(document["devDependencies"]) == {"@types/node", "typescript"}


def test_the_core_needs_no_node(client: JavascriptClient) -> None:
    """Browsers, Deno and workers load `core.js` and its imports."""
    seen, left = set(), ["core.js"]
    while left:
        name = left.pop()
        seen.add(name)
        for line in (client.build / "dist" / "esm" / name).read_text().splitlines():
            if " from '" in line and line.startswith(("import", "export")):
                module = line.split(" from '")[1].split("'")[0]
                assert module.startswith("./"), f"{name}: {line}"
                left += [] if module[2:] in seen else [module[2:]]
    assert "sender.js" in seen and "heartbeat.js" in seen
