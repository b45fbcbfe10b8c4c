"""An origin for `protocols/servers.rs`: Python's http.server, HTTP/1.0, one answer a connection."""

import hashlib
import sys
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer


class Handler(SimpleHTTPRequestHandler):
    def do_POST(self):
        length = int(self.headers.get("Content-Length", "0"))
        digest = hashlib.sha256()
        while length > 0:
            piece = self.rfile.read(min(length, 65536))
            if not piece:
                return
            digest.update(piece)
            length -= len(piece)
        body = digest.hexdigest().encode()
        self.send_response(200)
        self.end_headers()
        # No length: the connection's end is the body's.
        self.wfile.write(body)

    def log_message(self, *_):
        pass


ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler).serve_forever()
