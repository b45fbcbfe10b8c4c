"""An origin of files on Python's wsgiref, which gives an application the path decoded."""

import os
import posixpath
import sys
from wsgiref.simple_server import WSGIRequestHandler, make_server


class Handler(WSGIRequestHandler):
    def log_message(self, *_):
        pass


def application(environ, start_response):
    path = posixpath.normpath("/" + environ["PATH_INFO"].split("\0")[0]).lstrip("/")
    if os.path.isfile(path):
        with open(path, "rb") as file:
            content = file.read()
        status = "200 OK"
    else:
        content, status = b"", "404 Not Found"
    start_response(status, [("Content-Length", str(len(content)))])
    return [content]


make_server("127.0.0.1", int(sys.argv[1]), application, handler_class=Handler).serve_forever()
