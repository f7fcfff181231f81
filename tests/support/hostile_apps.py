"""Programs that mean harm, for the tests of what deploys them."""

FORK_BOMB = """\
import os, time
children = 0
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
            os._exit(0)
        children += 1
except OSError as fault:
    print("no more than", children, fault, flush=True)
"""
"""Forks until it may not, and leaves its children."""

MEMORY_BOMB = """\
taken = []
while True:
    taken.append(bytearray(16 * 2**20))
    print("has", 16 * len(taken), "MiB", flush=True)
"""

DAEMONS = """\
import os, signal, sys, time


def daemon(prepare):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            prepare()
            time.sleep(1000)
        os._exit(0)
    os.wait()


def close_outputs():
    os.closerange(0, 3)


def forget_environment():
    os.execve("/bin/sleep", ["sleep", "1000"], {})


daemon(lambda: None)
daemon(close_outputs)
daemon(forget_environment)
"""
"""Three of them: one holds the outputs, one has closed them, one has got rid of its environment."""

STUBBORN_AND_DEAF = """\
import signal, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, signal.SIG_IGN)
print("stays", flush=True)
while True:
    time.sleep(1)
"""

SICK = """\
import http.server, os


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_error(500)


http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""

INTRUDER = '''\
"""Tries what is in attempts.json, and writes which attempts were of use into the file that it is told."""
import json, os, signal, socket, sys


def read(path):
    if os.path.isdir(path):
        return os.listdir(path)
    with open(path, "rb") as file:
        return file.read(4096)


def write(path):
    with open(path, "a") as file:
        file.write("was here")
    return True


def link(path):
    os.link(path, os.path.join(os.environ["HOME"], "stolen"))
    return True


def kill(pid):
    os.kill(int(pid), signal.SIGKILL)
    return True


def connect(path):
    with socket.socket(socket.AF_UNIX) as asked:
        asked.connect(path)
    return True


found = {}
attempts = json.load(open("attempts.json"))
for kind, target in attempts:
    try:
        if got := globals()[kind](target):
            found[f"{kind} {target}"] = repr(got)
    except OSError as fault:
        print(kind, target, fault, file=sys.stderr)
with open(sys.argv[1], "w") as file:
    json.dump({"tried": len(attempts), "done": found}, file)
'''
"""An empty folder counts as of no use: what is hidden is seen as empty."""
