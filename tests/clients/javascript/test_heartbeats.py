"""Runs of jobs that the JavaScript client reports to ping URLs."""

import json
from pathlib import Path
from typing import Any

from tests.support.javascript_client import run_node
from tests.support.platform_process import PlatformProcess
from tests.support.waits import wait_until


def test_runs_are_reported_with_their_duration_and_output(platform: PlatformProcess, app: Path) -> None:
    done = platform.run("heartbeat", "create", "nightly", "--period", "1h", "--json")
    created = json.loads(done.stdout)
    (app / "job.mjs").write_text("""
        import { heartbeat } from 'pharos-client'
        const nightly = heartbeat(process.env.PING_URL)
        const outcomes = []
        outcomes.push(await nightly(() => 'backed up'))
        const cleanUp = nightly.wrap(async (path) => { throw new RangeError(`no folder ${path}`) })
        await cleanUp('/tmp/x').catch((error) => outcomes.push(error.message))
        const run = nightly.start()
        await run.success('12 files')
        // Two runs at the same time are kept apart.
        const [first, second] = [nightly.start(), nightly.start()]
        await second.exit(7, 'disk full')
        await first.success()
        console.log(JSON.stringify({ outcomes, rids: [run.rid, first.rid, second.rid] }))
    """)
    ended = run_node(
        app, "job.mjs", PING_URL=f"http://127.0.0.1:{platform.port}{created['ping_key']['urls']['success']}"
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    printed = json.loads(ended.stdout)
    assert printed["outcomes"] == ["backed up", "no folder /tmp/x"]

    def runs(run: str = "") -> Any:
        path = f"/api/v1/monitors/heartbeats/{created['id']}/runs{run}"
        headers = {"Authorization": f"Bearer {platform.credentials['api_token']}"}
        return platform.request("GET", path, headers=headers).json["data"]

    wait_until(
        lambda: sorted(run["outcome"] for run in runs()) == ["failed", "failed", *["succeeded"] * 3],
        describe=runs,
    )
    by_id = {run["run_id"]: run for run in runs()}
    output, first, second = (by_id[rid] for rid in printed["rids"])
    assert all(run["duration_seconds"] is not None for run in by_id.values())
    assert (output["outcome"], first["outcome"], second["outcome"]) == ("succeeded", "succeeded", "failed")
    assert second["exit_status"] == 7
    assert runs(f"/{output['run_id']}")["output"] == "12 files"
    (failed,) = [run for run in by_id.values() if run["outcome"] == "failed" and run is not second]
    stack = runs(f"/{failed['run_id']}")["output"]
    assert stack.startswith("RangeError: no folder /tmp/x\n    at ") and "job.mjs:" in stack


def test_pings_that_fail_never_break_a_job(app: Path) -> None:
    """If nothing listens, or the URL is invalid or missing, the job still runs and returns its result."""
    (app / "job.mjs").write_text("""
        import { heartbeat } from 'pharos-client'
        const results = []
        const errors = []
        for (const url of ['http://127.0.0.1:9/ping/phr_png_secret', 'no url', undefined]) {
          const job = heartbeat(url, { timeoutMs: 50, onError: (error) => errors.push(error.message) })
          results.push(await job(async () => url ?? 'none'))
        }
        console.log(JSON.stringify({ results, errors }))
    """)
    ended = run_node(app, "job.mjs")
    assert (ended.returncode, ended.stderr) == (0, "")
    printed = json.loads(ended.stdout)
    assert printed["results"] == ["http://127.0.0.1:9/ping/phr_png_secret", "no url", "none"]
    assert len(printed["errors"]) == 3
    assert "phr_png_secret" not in str(printed["errors"])
