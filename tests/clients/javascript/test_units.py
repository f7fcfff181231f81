"""The tests of the JavaScript client's parts, which Node.js runs."""

from tests.support.javascript_client import JavascriptClient, run_node


def test_parts(client: JavascriptClient) -> None:
    files = sorted(str(path) for path in (client.build / "test").glob("*.test.mjs"))
    ended = run_node(client.build, "--test", "--test-reporter=tap", *files)
    assert ended.returncode == 0, ended.stdout[-5000:]
    assert "\n# pass 43" in ended.stdout, ended.stdout[-500:]
