"""The edge serves the single-file `pharos run`."""

from tests.ingest_edge.conftest import RunningEdge
from tests.support.compose_file import ROOT


async def test_the_script_is_served_as_it_is_in_the_repository(edge: RunningEdge) -> None:
    content = (ROOT / "clients" / "run" / "pharos_run.py").read_bytes()
    answer = await edge.request("GET", "/pharos-run.py")
    assert (answer.status, answer.body) == (200, content)
    assert answer.headers["Content-Type"] == "text/x-python; charset=utf-8"
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Cache-Control"] == "public, max-age=3600"
    etag = answer.headers["ETag"]
    for known in (etag, f'"other", W/{etag}', "*"):
        answer = await edge.request("GET", "/pharos-run.py", headers={"If-None-Match": known})
        assert (answer.status, answer.body, answer.headers["ETag"]) == (304, b"", etag)
    head = await edge.request("HEAD", "/pharos-run.py", headers={"If-None-Match": '"other"'})
    assert (head.status, head.body, int(head.headers["Content-Length"])) == (200, b"", len(content))
    refused = await edge.request("POST", "/pharos-run.py")
    assert (refused.status, refused.headers["Allow"]) == (405, "GET, HEAD")
