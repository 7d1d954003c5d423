"""Small programs to run on hosts."""

import subprocess
import sys

ECHO = """
import socket
with socket.create_server(("0.0.0.0", 7000)) as server:
    server.settimeout(30)
    print("listening", flush=True)
    connection, peer = server.accept()
    with connection:
        connection.settimeout(30)
        print(peer[0], flush=True)
        while data := connection.recv(65536):
            connection.sendall(data)
"""
SAY = """
import socket, sys
data = bytes(range(256)) * 1024
with socket.create_connection((sys.argv[1], 7000), timeout=30) as connection:
    got = b""
    for start in range(0, len(data), 4096):
        connection.sendall(data[start : start + 4096])
        while len(got) < start + 4096 and (more := connection.recv(65536)):
            got += more
sys.exit(0 if got == data else 1)
"""
PING = """
import socket, sys, time
with socket.create_connection((sys.argv[1], 7000), timeout=30) as connection:
    start = time.monotonic()
    connection.sendall(b"x")
    assert connection.recv(1) == b"x"
    print(time.monotonic() - start)
"""


def python(network, host, program, *arguments, **options):
    command = [sys.executable, "-c", program, *arguments]
    return network.run(host, command, stdout=subprocess.PIPE, encoding="utf-8", **options)
