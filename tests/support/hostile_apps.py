"""Hostile programs for tests of the deployer."""

from tests.deployer.processes.sandbox import PYTHON

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
"""Forks until it is refused, and leaves its children behind."""

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
"""Leaves three daemons: one keeps the output streams, one has closed them, one has no environment."""

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
"""Makes the attempts of attempts.json, and writes the successful ones to the file of its argument."""
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
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)
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
"""An empty folder counts as a failed attempt: hidden folders look empty."""


HIDDEN_PROCESS = f"""{PYTHON} - <<'END' &
import ctypes, os, sys, time
libc = ctypes.CDLL(None)
NEW_ALL = 0x5E020000
def leave():
    if os.fork():
        os._exit(0)
    os.setsid()
    if os.fork():
        os._exit(0)
leave()
home = os.open(os.environ["HOME"], os.O_RDONLY)
for number in range(3):
    os.dup2(os.open("/dev/null", os.O_RDWR), number)
# As many namespaces as the kernel grants: user and mount namespaces, and a root without the mark. No PID namespace: it
# ends with its first process, which exits.
user = (os.getuid(), os.getgid())
for flags in (NEW_ALL, 0x10020000, 0x10000000):
    libc.unshare(flags)
for name, content in (("setgroups", "deny"), ("uid_map", f"0 {{user[0]}} 1"), ("gid_map", f"0 {{user[1]}} 1")):
    try:
        open(f"/proc/self/{{name}}", "w").write(content)
    except OSError:
        pass
libc.mount(b"none", b"/", None, 0x44000, None)
os.makedirs("/tmp/root", exist_ok=True)
if libc.mount(b"none", b"/tmp/root", b"tmpfs", 0, None) == 0:
    os.mkdir("/tmp/root/old")
    for name in ("bin", "lib", "lib64", "usr"):
        if os.path.islink(f"/{{name}}"):
            os.symlink(os.readlink(f"/{{name}}"), f"/tmp/root/{{name}}")
        elif os.path.isdir(f"/{{name}}"):
            os.mkdir(f"/tmp/root/{{name}}")
            libc.mount(f"/{{name}}".encode(), f"/tmp/root/{{name}}".encode(), None, 0x5000, None)
    libc.syscall(155 if os.uname().machine == "x86_64" else 41, b"/tmp/root", b"/tmp/root/old")
    os.chdir("/")
    libc.umount2(b"/old", 2)
libc.umount2(b"/srv", 2)
leave()
try:
    os.close(os.open("hidden", os.O_CREAT | os.O_WRONLY, dir_fd=home))
except OSError:
    pass
os.execve("/bin/sleep", ["sleep", "600"], {{}})
END
"""
"""A shell command that starts `sleep 600` two sessions away, with an empty environment, and in namespaces of its own
where the kernel grants any. Creates the file `hidden` in its home first."""


VICTIM = """\
import http.server, os, signal, sys, time

# During this time the port is free.
time.sleep(float(os.environ.get("START_SECONDS", "0")))


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/crash":
            os.kill(os.getpid(), signal.SIGKILL)
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"mine")

    def log_message(self, *_):
        pass


http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
"""Kills itself on GET /crash."""

ATTACKER = """\
import os, socket, threading, time

own = int(os.environ["PORT"])
stolen = open(os.path.join(os.environ["HOME"], "stolen"), "ab", buffering=0)
taken, targets = {}, set()


def serve(listener, response):
    while True:
        caller, _ = listener.accept()
        threading.Thread(target=talk, args=(caller, response), daemon=True).start()


def talk(caller, response):
    caller.settimeout(20)
    try:
        head = caller.recv(65536)
        if response != b"attacker":
            # A probe has no cookie; an abandoned connection sends nothing.
            kind = b"cookie" if b"Cookie:" in head else b"request" if head else b"nothing"
            stolen.write(kind + b"\\n")
        if head:
            caller.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(response), response))
    except OSError:
        pass
    caller.close()


def listen(port, response):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
    except OSError:
        listener.close()
        return None
    threading.Thread(target=serve, args=(listener, response), daemon=True).start()
    return listener


def scan():
    with open("/proc/net/tcp") as file:
        for line in list(file)[1:]:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == "0A" and fields[7] == os.environ["VICTIM_UID"] and port not in targets:
                targets.add(port)
                stolen.write(b"seen\\n")


listen(own, b"attacker")
scanned_at = 0.0
while True:
    if time.monotonic() - scanned_at > 0.05:
        scan()
        scanned_at = time.monotonic()
    for port in targets - taken.keys():
        if (listener := listen(port, b"stolen")) is not None:
            taken[port] = listener
            stolen.write(b"port\\n")
    time.sleep(0.0002)
"""
"""Takes each port on which the user VICTIM_UID listens as soon as it is free. Writes a line to `stolen` in its home for
each port, `seen` and then `port`, and for each connection what it received: `cookie`, `request` or `nothing`."""
