"""How to report to a heartbeat or a queue: commands to paste, with a new key."""

from typing import Any

from operator_cli.api.names import Row
from operator_cli.messages import program_name, qualify_commands


def describe_monitor_key(heartbeat: Row, key: dict[str, Any], base_url: str) -> str:
    """Return the new key of a heartbeat, and commands that report with it."""
    number, secret = heartbeat["id"], key["key"]
    body = '{\\"run_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", \\"signal\\": \\"success\\"}'
    return f"""\
Heartbeat {number}, {heartbeat["name"]}. Its key {key["id"]}, shown this once:
{secret}

Around the job:
  PHAROS_URL={base_url} PHAROS_HEARTBEAT_KEY={secret} {program_name()} run --heartbeat {number} -- your-command
Or from anywhere:
  curl -sS {base_url}/v1/heartbeats/{number} {_headers(secret)} -d "{body}\""""


def describe_ping_url(heartbeat: Row, key: dict[str, Any], host: str) -> str:
    """Return the URL of a new ping key, and commands that call it."""
    number, url = heartbeat["id"], host + key["urls"]["success"]
    # A heartbeat with a period has no schedule to show here: 3 a.m. is an example.
    cron = heartbeat["cron"] or "0 3 * * *"
    curl = "curl -fsS -m 10 --retry 5 -o /dev/null"
    return qualify_commands(f"""
Ping URL (key {key["id"]}), for jobs that can only call a URL; `pharos heartbeat show {number}` shows it again:
{url}

In a crontab:
  {cron}  /usr/local/bin/backup; {curl} {url}/$?
In a script, with the time it takes and its output:
  {curl} {url}/start
  output=$(your-command 2>&1); status=$?
  {curl} --data-raw "$output" {url}/$status""")


def describe_queue_key(queue: Row, key: dict[str, Any], base_url: str) -> str:
    """Return the new key of a queue, and a command that reports with it."""
    body = (
        '{\\"snapshot_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", '
        '\\"observed_at\\": \\"$(date -u +%FT%TZ)\\", \\"pending\\": 5}'
    )
    return f"""\
Queue {queue["id"]}, {queue["name"]}. Its key {key["id"]}, shown this once:
{key["key"]}

A snapshot:
  curl -sS {base_url}/v1/queues/{queue["id"]}/snapshots {_headers(key["key"])} -d "{body}\""""


def _headers(secret: str) -> str:
    return f"-H 'Authorization: Bearer {secret}' -H 'Content-Type: application/json'"
