"""A program that hides its processes from the deployer."""

from tests.deployer.processes.sandbox import PYTHON

HIDE = f"""{PYTHON} - <<'END' &
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
# Whatever the kernel grants of it: user and mount namespaces, and a root without the mark. No PID namespace, since that
# ends with its first process, which leaves.
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
