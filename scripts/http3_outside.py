"""Clients of HTTP/3 that are not quinn: aioquic, well-behaved and hostile. Run by `make http3-outside`.

Starts an origin and the built gateway (its path is the only argument), and says what each client met. Exits with 1
if a promise does not hold: the gateway serves others meanwhile, holds no request afterwards, and its memory stays bounded.
"""

import asyncio
import json
import os
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StreamReset

MEMORY_MAX_KIB = 200 * 1024


class Origin(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body leave as they are written.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_GET(self):
        body = b"x" * int(self.path.rsplit("/", 1)[1] or 0)
        self.answer(body)

    def do_POST(self):
        self.answer(self.rfile.read(int(self.headers["content-length"])))

    def answer(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


class Server(ThreadingHTTPServer):
    request_queue_size = 1024
    daemon_threads = True

    def handle_error(self, *_):
        pass


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.http = H3Connection(self._quic)
        self.answers = {}
        self.done = {}
        self.ended = asyncio.get_running_loop().create_future()

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated) and not self.ended.done():
            self.ended.set_result(event.error_code)
            for done in self.done.values():
                if not done.done():
                    done.set_result("closed")
        if isinstance(event, StreamReset):
            self.finish(event.stream_id, f"reset {event.error_code:#x}")
        for met in self.http.handle_event(event):
            if isinstance(met, HeadersReceived):
                fields = dict(met.headers)
                self.answers.setdefault(met.stream_id, [fields.get(b":status", b"?").decode(), b""])
            if isinstance(met, DataReceived):
                self.answers[met.stream_id][1] += met.data
            if isinstance(met, (HeadersReceived, DataReceived)) and met.stream_ended:
                self.finish(met.stream_id, tuple(self.answers[met.stream_id]))

    def finish(self, stream, how):
        done = self.done.get(stream)
        if done and not done.done():
            done.set_result(how)

    def begin(self, path, fields=(), method="GET", ends=True):
        stream = self._quic.get_next_available_stream_id()
        self.done[stream] = asyncio.get_running_loop().create_future()
        head = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", b"example.test")]
        self.http.send_headers(stream, head + [(b":path", path.encode())] + list(fields), ends)
        self.transmit()
        return stream

    async def answer(self, stream, within=10):
        return await asyncio.wait_for(self.done[stream], within)


class Session:
    """A connection to the gateway."""

    def __init__(self, port, **settings):
        self.port, self.settings = port, settings

    async def __aenter__(self):
        config = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, verify_mode=ssl.CERT_NONE)
        for name, value in self.settings.items():
            setattr(config, name, value)
        self.within = connect("127.0.0.1", self.port, configuration=config, create_protocol=Client)
        self.client = await self.within.__aenter__()
        return self.client

    async def __aexit__(self, *args):
        await self.within.__aexit__(*args)


async def well_behaved(port):
    async with Session(port) as client:
        streams = [client.begin(f"/{number * 1000}") for number in range(60)]
        for number, stream in enumerate(streams):
            status, body = await client.answer(stream)
            assert (status, len(body)) == ("200", number * 1000), (status, len(body))
        body = os.urandom(2_000_000)
        stream = client.begin("/", [(b"content-length", b"2000000")], "POST", False)
        client.http.send_data(stream, body, True)
        client.transmit()
        assert await client.answer(stream) == ("200", body)


async def endless_heads(port):
    async with Session(port) as client:
        for length in (b"\xc0\xff\xff\xff\xff\xff\xff\xff", b"\x80\x00\x60\x00"):
            stream = client._quic.get_next_available_stream_id()
            client.done[stream] = asyncio.get_running_loop().create_future()
            client._quic.send_stream_data(stream, b"\x01" + length + b"\0" * 20000)
            client.transmit()
            print("   a head without an end:", await client.answer(stream, 15))


async def resets(port):
    async with Session(port) as client:
        for _ in range(2000):
            try:
                stream = client.begin("/10")
                client._quic.reset_stream(stream, 0x10C)
                client._quic.stop_stream(stream, 0x10C)
                client.transmit()
            except Exception:
                break
            if client.ended.done():
                break
            await asyncio.sleep(0)
        print("   resets end with", hex(await asyncio.wait_for(client.ended, 10)))


async def settings(port):
    """A setting that never ends, unknown frames and streams, on the client's control stream."""
    async with Session(port) as client:
        control = client.http._local_control_stream_id
        for _ in range(200):
            client._quic.send_stream_data(control, b"\x21\x40\x80" + b"\0" * 128)
        client.transmit()
        print("   control frames end with", hex(await asyncio.wait_for(client.ended, 10)))
    async with Session(port) as client:
        client._quic.send_stream_data(client.http._local_control_stream_id, b"\x21\xbf\xff\xff\xff")
        for _ in range(100):
            client._quic.send_stream_data(client.http._local_control_stream_id, b"\0" * 1000)
        client.transmit()
        print("   a long control frame ends with", hex(await asyncio.wait_for(client.ended, 10)))


async def unknown_streams(port):
    async with Session(port) as client:
        for _ in range(300):
            stream = client._quic.get_next_available_stream_id(is_unidirectional=True)
            client._quic.send_stream_data(stream, b"\x21" + b"x" * 100, True)
            client.transmit()
            await asyncio.sleep(0)
        assert (await client.answer(client.begin("/5")))[0] == "200"


async def qpack(port):
    """Instructions for a table that there is not, and a header block that refers to it."""
    async with Session(port) as client:
        client._quic.send_stream_data(client.http._local_encoder_stream_id, b"\x3f\xe1\xff\x03" + b"\x41a\x01b" * 50000)
        stream = client._quic.get_next_available_stream_id()
        client._quic.send_stream_data(stream, b"\x01\x03\x05\x00\x80", True)
        client.transmit()
        print("   a dynamic table ends with", hex(await asyncio.wait_for(client.ended, 10)))


async def tiny_frames(port):
    """An upload in frames of one byte."""
    async with Session(port) as client:
        stream = client.begin("/", [(b"content-length", b"100000")], "POST", False)
        client._quic.send_stream_data(stream, b"\x00\x01x" * 100000, True)
        client.transmit()
        status, body = await client.answer(stream, 30)
        assert (status, body) == ("200", b"x" * 100000)


async def no_window(port):
    """Asks for much and takes nothing."""
    async with Session(port, max_data=2000, max_stream_data=100) as client:
        # aioquic would widen the windows.
        client._quic._write_connection_limits = client._quic._write_stream_limits = lambda *_, **__: None
        streams = [client.begin("/5000000") for _ in range(50)]
        await asyncio.sleep(2)
        assert not any(client.done[it].done() for it in streams)


async def main(gateway, admin, port):
    for attack in (well_behaved, endless_heads, resets, settings, unknown_streams, qpack, tiny_frames, no_window):
        print(attack.__name__, flush=True)
        await attack(port)
        async with Session(port) as client:
            assert (await client.answer(client.begin("/7"))) == ("200", b"x" * 7)
        with open(f"/proc/{gateway.pid}/status") as status:
            used = next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))
        print(f"   memory: {used // 1024} MiB", flush=True)
        assert used < MEMORY_MAX_KIB, used
    for _ in range(100):
        with urllib.request.urlopen(f"http://{admin}/status") as answer:
            limit = json.load(answer)["limit"]
        if limit["running"] == limit["waiting"] == 0:
            return
        await asyncio.sleep(0.1)
    raise AssertionError(f"requests are held: {limit}")


def free_port():
    import socket

    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


if __name__ == "__main__":
    origin = Server(("127.0.0.1", 0), Origin)
    threading.Thread(target=origin.serve_forever, daemon=True).start()
    with tempfile.TemporaryDirectory() as folder:
        pair = [f"{folder}/{end}" for end in ("pem", "key")]
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=example.test"]
            + ["-addext", "subjectAltName=DNS:example.test", "-out", pair[0], "-keyout", pair[1]],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        port, admin = free_port(), f"127.0.0.1:{free_port()}"
        with open(f"{folder}/policy.toml", "w") as policy:
            policy.write(
                f'admin = "{admin}"\nthreads = 2\n[[listener]]\naddress = "127.0.0.1:{port}"\nhttp3 = true\n'
                f'tls = {{ certificate = "{pair[0]}", key = "{pair[1]}" }}\n'
                f'[origin]\nservers = ["127.0.0.1:{origin.server_port}"]\nslots = 100\n'
            )
        gateway = subprocess.Popen([sys.argv[1], "run", f"{folder}/policy.toml"], stderr=subprocess.PIPE, text=True)
        log = []
        ready = threading.Event()

        def read():
            for line in gateway.stderr:
                log.append(line)
                if "metrics and status" in line:
                    ready.set()

        threading.Thread(target=read, daemon=True).start()
        try:
            assert ready.wait(20), log
            asyncio.run(main(gateway, admin, port))
            gateway.send_signal(signal.SIGTERM)
            assert gateway.wait(60) == 0
            print("all promises held")
        except BaseException:
            print("".join(log))
            raise
        finally:
            gateway.kill()
