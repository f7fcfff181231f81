"""How to report to a heartbeat or a queue: commands to paste, with a new key."""

import shlex
from typing import Any, Final

from operator_cli.api.names import Row
from operator_cli.messages import program_name, qualify_commands

_NO_SCHEDULE: Final = "SCHEDULE"


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
    cron = heartbeat["cron"] or _find_cron(heartbeat["period_seconds"])
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


def describe_named_ping_urls(root: str) -> str:
    """Return commands that ping heartbeats by name. `root`: what their URLs begin with, up to the name."""
    curl = "curl -fsS -m 10 --retry 5 -o /dev/null"
    return f"""
In a crontab; the first ping creates the heartbeat "backup", which is due each day:
  0 3 * * *  /usr/local/bin/backup; {curl} "{root}backup/$??create=1"
On a machine without Pharos, with the time it takes and its output:
  curl -fsSO {root.partition("/ping/")[0]}/pharos-run.py
  PHAROS_PING_URL='{root}backup?create=1' python3 pharos-run.py -- your-command"""


def _find_cron(period_seconds: int) -> str:
    """Return a crontab schedule with this period, or a placeholder where cron has none."""
    minutes, seconds = divmod(period_seconds, 60)
    hours = minutes // 60
    if seconds or not minutes:
        return _NO_SCHEDULE
    if minutes == 1:
        return "* * * * *"
    if minutes < 60:
        return f"*/{minutes} * * * *" if 60 % minutes == 0 else _NO_SCHEDULE
    if minutes % 60:
        return _NO_SCHEDULE
    if hours == 1:
        return "0 * * * *"
    if hours < 24:
        return f"0 */{hours} * * *" if 24 % hours == 0 else _NO_SCHEDULE
    return {24: "0 3 * * *", 7 * 24: "0 3 * * 0"}.get(hours, _NO_SCHEDULE)


def describe_queue_key(queue: Row, key: dict[str, Any], base_url: str) -> str:
    """Return the new key of a queue, and a command that reports with it."""
    body = (
        '{\\"snapshot_id\\": \\"$(cat /proc/sys/kernel/random/uuid)\\", '
        '\\"observed_at\\": \\"$(date -u +%FT%TZ)\\", \\"pending\\": 5}'
    )
    return f"""\
Queue {queue["id"]}, {queue["name"]}. Its key {key["id"]}, shown this once:
{key["key"]}

For the client libraries, in the environment of the workers (a comma separates several queues):
  export PHAROS_QUEUES={shlex.quote(f"{queue['name']}={queue['id']}:{key['key']}")}
A snapshot:
  curl -sS {base_url}/v1/queues/{queue["id"]}/snapshots {_headers(key["key"])} -d "{body}\""""


def _headers(secret: str) -> str:
    return f"-H 'Authorization: Bearer {secret}' -H 'Content-Type: application/json'"
