"""Programs that the scripts beside this file start and end: servers to protect, Tiergate and its peers in front of them."""

import http.client
import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TIERGATE = os.environ.get("TIERGATE") or os.path.join(ROOT, "target/release/tiergate")


def free_port():
    """A port of the loopback address that nothing listens on at the moment."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def written(folder, name, text):
    """Writes a file of a run, and gives its path."""
    path = os.path.join(folder, name)
    with open(path, "w") as file:
        file.write(text)
    return path


def answers(port, within=10):
    """Waits until something on the port answers a request, whatever it says; ends the script if nothing does."""
    until = time.monotonic() + within
    while time.monotonic() < until:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=2):
                return
        except (urllib.error.HTTPError, http.client.HTTPException):
            return
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"nothing answers on port {port}")


class Program:
    """A program of ours, ended with its children when it goes out of scope."""

    def __init__(self, words, port, folder, files=None, within=10):
        self.within = within
        self.log = open(os.path.join(folder, f"{port}.log"), "wb")
        if files:
            words = ["prlimit", f"--nofile={files}:{files}", *words]
        self.process = subprocess.Popen(words, stdout=self.log, stderr=self.log, cwd=folder, start_new_session=True)
        self.port = port

    def __enter__(self):
        try:
            answers(self.port, self.within)
        except SystemExit as error:
            self.__exit__()
            with open(self.log.name, errors="replace") as said:
                raise SystemExit(f"{error}: {self.process.args[0]} said: {said.read()[-1000:]}") from None
        return self

    def __exit__(self, *_):
        # Its own process group, and nothing else: some have workers.
        for how in (signal.SIGTERM, signal.SIGKILL):
            try:
                os.killpg(self.process.pid, how)
                self.process.wait(timeout=5)
                return
            except subprocess.TimeoutExpired:
                continue
            except ProcessLookupError:
                return

    def resident_kib(self):
        """Resident memory of the program and its workers."""
        total = 0
        for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
            try:
                if os.getpgid(int(pid)) != self.process.pid:
                    continue
                with open(f"/proc/{pid}/status") as file:
                    total += sum(int(line.split()[1]) for line in file if line.startswith("VmRSS"))
            except (OSError, ProcessLookupError):
                continue
        return total


def tiergate(origin, folder, policy="", listener="", at_origin="", files=None):
    """Tiergate before a port. `policy`: further tables; `listener`, `at_origin`: keys of these tables."""
    port = free_port()
    text = f'admin = false\n[[listener]]\naddress = "127.0.0.1:{port}"\n{listener}\n'
    text += f'[origin]\nservers = ["127.0.0.1:{origin}"]\n{at_origin}\n{policy}\n'
    return Program([TIERGATE, "run", written(folder, f"{port}.toml", text)], port, folder, files)


def haproxy(origin, folder, maxconn=None, frontend="", backend="", connections=9000, protocol="", queue_ms=5000, files=None):
    """HAProxy before a port, with `maxconn` requests at a time at the server."""
    port = free_port()
    text = (
        "global\n  expose-experimental-directives\n"
        + (f"  maxconn {connections}\n" if connections else "")
        + "defaults\n  mode http\n  option abortonclose\n  timeout connect 5s\n  timeout client 60s\n"
        f"  timeout server 60s\n  timeout http-request 10s\n  timeout queue {queue_ms}ms\n"
        f"frontend f\n  bind 127.0.0.1:{port} {protocol}\n{frontend}\n  default_backend b\n"
        f"backend b\n{backend}\n  server s 127.0.0.1:{origin}{f' maxconn {maxconn}' if maxconn else ''}\n"
    )
    return Program(["haproxy", "-db", "-f", written(folder, f"{port}.cfg", text)], port, folder, files)


def nginx(origin, folder, server="", protocol="", connections=8192, files=None):
    """nginx before a port, buffering as it does by default, with connections to the server kept."""
    port = free_port()
    text = (
        f"daemon off; pid {folder}/{port}.pid; error_log stderr crit; worker_processes 2;\n"
        f"events {{ worker_connections {connections}; }}\nhttp {{ access_log off; "
        f"client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;"
        f"uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;\n"
        f"upstream o {{ server 127.0.0.1:{origin}; keepalive 64; }}\nserver {{ listen 127.0.0.1:{port} {protocol};\n{server}\n"
        'location / { proxy_pass http://o; proxy_http_version 1.1; proxy_set_header Connection ""; } } }\n'
    )
    return Program(["nginx", "-c", written(folder, f"{port}.conf", text), "-p", folder], port, folder, files)
