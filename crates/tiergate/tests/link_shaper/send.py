"""Sends datagrams of 1000 bytes with a traffic class: send.py ADDRESS CLASS COUNT, or send.py ADDRESS CLASS SECONDSs."""

import socket
import sys
import time

address, traffic_class, how_many = sys.argv[1:]
v6 = ":" in address
sender = socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_DGRAM)
level, option = (
    (socket.IPPROTO_IPV6, socket.IPV6_TCLASS) if v6 else (socket.IPPROTO_IP, socket.IP_TOS)
)
sender.setsockopt(level, option, int(traffic_class))


def send():
    try:
        sender.sendto(b"x" * 1000, (address, 9))
    except ConnectionRefusedError:
        # Nobody listens there, and says so.
        pass


if how_many.endswith("s"):
    until = time.monotonic() + float(how_many[:-1])
    while time.monotonic() < until:
        send()
else:
    for _ in range(int(how_many)):
        send()
