"""Two applications: one that crashes when it is told to, and one that takes the ports of others."""

VICTIM = """\
import http.server, os, signal, sys, time

# The time in which its port is free.
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
"""Killed by a GET of /crash."""

ATTACKER = """\
import os, socket, threading, time

own = int(os.environ["PORT"])
stolen = open(os.path.join(os.environ["HOME"], "stolen"), "ab", buffering=0)
taken, wanted = {}, set()


def serve(listener, answer):
    while True:
        caller, _ = listener.accept()
        threading.Thread(target=talk, args=(caller, answer), daemon=True).start()


def talk(caller, answer):
    caller.settimeout(20)
    try:
        head = caller.recv(65536)
        if answer != b"attacker":
            # A probe has no cookie; a connection that is given up sends nothing.
            kind = b"cookie" if b"Cookie:" in head else b"request" if head else b"nothing"
            stolen.write(kind + b"\\n")
        if head:
            caller.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: %d\\r\\n\\r\\n%b" % (len(answer), answer))
    except OSError:
        pass
    caller.close()


def listen(port, answer):
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(1024)
    except OSError:
        listener.close()
        return None
    threading.Thread(target=serve, args=(listener, answer), daemon=True).start()
    return listener


def look():
    with open("/proc/net/tcp") as file:
        for line in list(file)[1:]:
            fields = line.split()
            port = int(fields[1].rpartition(":")[2], 16)
            if fields[3] == "0A" and fields[7] == os.environ["VICTIM_UID"] and port not in wanted:
                wanted.add(port)
                stolen.write(b"seen\\n")


listen(own, b"attacker")
looked = 0.0
while True:
    if time.monotonic() - looked > 0.05:
        look()
        looked = time.monotonic()
    for port in wanted - taken.keys():
        if (listener := listen(port, b"stolen")) is not None:
            taken[port] = listener
            stolen.write(b"port\\n")
    time.sleep(0.0002)
"""
"""Takes each port on which the user VICTIM_UID listens as soon as it is free. Writes a line to `stolen` in its home for
each port, `seen` and then `port`, and for each connection what it got: `cookie`, `request` or `nothing`."""
