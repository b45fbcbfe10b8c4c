"""A worker of a pool: an HTTP server at a port, with a number of its own.

    worker.py PORT NUMBER

GET / answers with the number. POST /hold/NAME writes its process to the file NAME.begun, and answers once there is a file NAME.
GET /burn uses the processor for a while. SIGTERM ends it when the requests in progress are answered.
"""

import os
import signal
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

PORT, NUMBER = int(sys.argv[1]), sys.argv[2]


class Handler(BaseHTTPRequestHandler):
    def answer(self, text):
        self.send_response(200)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def do_GET(self):
        if self.path.endswith("/burn"):
            end = time.thread_time() + 0.02
            while time.thread_time() < end:
                pass
        self.answer(NUMBER)

    def do_POST(self):
        file = Path(self.path.removeprefix("/hold"))
        Path(f"{file}.begun").write_text(f"{os.getpid()}\n")
        while not file.exists():
            time.sleep(0.005)
        self.answer(NUMBER)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    # What is in progress is finished; what is queued is taken over by nobody.
    daemon_threads = False
    request_queue_size = 128


def end(*_):
    raise SystemExit


server = Server(("127.0.0.1", PORT), Handler)
signal.signal(signal.SIGTERM, end)
print(f"worker {NUMBER} serves", flush=True)
try:
    server.serve_forever(poll_interval=0.05)
finally:
    server.server_close()
