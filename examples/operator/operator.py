#!/usr/bin/env python3
"""An operator of a job in Python's standard library: it shares no code with Muster, and speaks the text protocol of NATS over a socket.

  muster credentials operator --job demo --replica shell > operator.json
  operator.py operator.json status
  operator.py operator.json watch
  operator.py operator.json fleet.scale '{"rollout": 2}'
  operator.py operator.json job.stop '{"reason": "enough"}'

Who it is, and what it may say, is in operator.json: the broker knows it by a token, and by a signature (Ed25519, RFC 8032) under a word that the
broker gives it. Every fact that it prints is one line of JSON.
"""
import base64
import hashlib
import json
import socket
import sys
import uuid
from urllib.parse import urlparse

# Ed25519, as RFC 8032 describes it: enough to sign once for each connection.
P = 2**255 - 19
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
BASE_Y = 4 * pow(5, P - 2, P) % P


def base_x():
    square = (BASE_Y * BASE_Y - 1) * pow(D * BASE_Y * BASE_Y + 1, P - 2, P) % P
    root = pow(square, (P + 3) // 8, P)
    if (root * root - square) % P != 0:
        root = root * pow(2, (P - 1) // 4, P) % P
    return root if root % 2 == 0 else P - root


BASE = (base_x(), BASE_Y, 1, base_x() * BASE_Y % P)


def add(a, b):
    e, f = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    g, h = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    x, y, z, w = f - e, h - g, h + g, f + e
    return (x * y % P, z * w % P, y * z % P, x * w % P)


def times(scalar, point):
    result = (0, 1, 1, 0)
    while scalar > 0:
        if scalar & 1:
            result = add(result, point)
        point, scalar = add(point, point), scalar >> 1
    return result


def packed(point):
    inverse = pow(point[2], P - 2, P)
    x, y = point[0] * inverse % P, point[1] * inverse % P
    return (y | ((x & 1) << 255)).to_bytes(32, "little")


def number(*parts):
    return int.from_bytes(hashlib.sha512(b"".join(parts)).digest(), "little")


def sign(seed, text):
    half = hashlib.sha512(seed).digest()
    secret = int.from_bytes(half[:32], "little") & ((1 << 254) - 8) | (1 << 254)
    public = packed(times(secret, BASE))
    nonce = number(half[32:], text) % ORDER
    point = packed(times(nonce, BASE))
    return point + ((nonce + number(point, public, text) * secret) % ORDER).to_bytes(32, "little")


class Broker:
    """One connection: publish, ask, and hear what is subscribed to."""

    def __init__(self, url, token, seed, name):
        place = urlparse(url.split(",")[0])
        self.socket = socket.create_connection((place.hostname, place.port or 4222), timeout=30)
        self.lines = self.socket.makefile("rb")
        info = json.loads(self.lines.readline().split(b" ", 1)[1])
        # A seed is two bytes of prefix, the key and a checksum, in base 32.
        key = base64.b32decode(seed + "=" * (-len(seed) % 8))[2:34]
        proof = base64.urlsafe_b64encode(sign(key, info["nonce"].encode())).rstrip(b"=").decode()
        hello = {"jwt": token, "sig": proof, "name": name, "lang": "python", "version": "1", "protocol": 1}
        self.say(f"CONNECT {json.dumps({**hello, 'verbose': False, 'pedantic': False, 'headers': True})}\r\nPING\r\n".encode())
        self.inbox = ""
        while (line := self.lines.readline()) != b"PONG\r\n":
            if not line or line.startswith(b"-ERR"):
                raise SystemExit(f"the broker refuses: {line.decode().strip() or 'it closed the connection'}")

    def say(self, data):
        self.socket.sendall(data)

    def subscribe(self, subject, number):
        self.say(f"SUB {subject} {number}\r\n".encode())

    def publish(self, subject, body, reply=""):
        self.say(f"PUB {subject} {reply + ' ' if reply else ''}{len(body)}\r\n".encode() + body + b"\r\n")

    def next(self):
        """The next message: subscription and body."""
        while True:
            line = self.lines.readline()
            if not line:
                raise SystemExit("the broker closed the connection")
            words = line.split()
            if words[0] == b"PING":
                self.say(b"PONG\r\n")
            elif words[0] == b"-ERR":
                raise SystemExit(f"the broker refuses: {line.decode().strip()}")
            elif words[0] in (b"MSG", b"HMSG"):
                body = self.lines.read(int(words[-1]) + 2)[:-2]
                return int(words[2]), body[int(words[-2]) :] if words[0] == b"HMSG" else body

    def ask(self, subject, body):
        """A request, and its one answer."""
        reply = f"{self.inbox}.{uuid.uuid4().hex}"
        self.subscribe(reply, 9)
        self.publish(subject, body, reply)
        while True:
            number, answer = self.next()
            if number == 9:
                return json.loads(answer)


def main(path, verb, body="{}"):
    with open(path, encoding="utf-8") as file:
        given = json.load(file)
    own, job = given["credentials"]["operator"], given["job"]
    me = own["replica"]["id"]
    broker = Broker(given["url"], own["replica"]["token"], own["seed"], f"operator.{me}.python")
    broker.inbox = f"_INBOX_operator.{me}"

    if verb == "status":
        key = json.dumps({"last_by_subj": f"$KV.muster-{job}.status"}).encode()
        answer = broker.ask(f"$JS.API.STREAM.MSG.GET.KV_muster-{job}", key)
        if "message" not in answer:
            raise SystemExit(f"there is no status: {answer.get('error', answer)}")
        print(base64.b64decode(answer["message"]["data"]).decode())
        return

    broker.subscribe(f"muster.{job}.events.>", 1)
    wanted = None
    if verb != "watch":
        command = {"commandId": f"py-{uuid.uuid4().hex[:12]}", **json.loads(body)}
        wanted = command["commandId"]
        broker.publish(f"muster.{job}.reports.operator.{me}.{verb}", json.dumps(command).encode())
    while True:
        event = json.loads(broker.next()[1])
        kind, said = event["kind"], event["body"]
        if wanted is None or said.get("commandId") == wanted:
            print(json.dumps({"kind": kind, "body": said}), flush=True)
        if kind == "job.ended" or (wanted and said.get("commandId") == wanted and kind in ENDS):
            raise SystemExit(0 if kind in ("command.done", "job.ended") else 2)


ENDS = ("command.done", "command.refused", "message.refused")

if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
