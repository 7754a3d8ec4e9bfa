"""Fetches the buffers of a package: mapped on one host, over TCP otherwise; verified before anybody sees them."""
import hashlib
import json
import mmap
import os
import socket
import time

from .store import LINE_MAX, boot_id

CHUNK = 1 << 20
ATTEMPTS = 3


class PeerGone(Exception):
    """The process that has the bytes does not give them: it is gone, or has other ones by now."""


def digest_of(buffer):
    """`sha256:` and 64 hexadecimal digits."""
    return "sha256:" + hashlib.sha256(buffer).hexdigest()


def manifest_of(key, package, rows, address):
    """What a receiver needs to know of a package. `rows` describe the tensors of each buffer."""
    buffers = [
        {"bytes": size, "digest": digest_of(package.view(i)), "tensors": rows[i]} for i, size in enumerate(package.sizes)
    ]
    return {"key": key, "secret": package.secret, "address": address, "buffers": buffers, "memory": package.place()}


def pull(manifest, metrics, timeout_seconds, address=None):
    """All buffers of a manifest, each equal to its digest. Raises PeerGone; then nothing is given out."""
    started, deadline = time.monotonic(), time.monotonic() + timeout_seconds
    buffers = _mapped(manifest)
    if buffers is None:
        buffers = _fetched(manifest, address or manifest["address"], deadline)
    metrics.record_recv(sum(len(buffer) for buffer in buffers), time.monotonic() - started)
    return buffers


def say_held(manifest, node_id, timeout_seconds, address=None):
    """Tells the source that everything arrived. Whether it hears is its own concern."""
    try:
        with _connect(address or manifest["address"], time.monotonic() + timeout_seconds) as connection:
            _ask(connection, manifest, {"held": node_id})
    except (OSError, PeerGone):
        return False
    return True


def join(manifest, node_id, timeout_seconds, address=None):
    """Waits for the source to begin its broadcast. Returns its members and store. Raises PeerGone when this node is not among them."""
    with _connect(address or manifest["address"], time.monotonic() + timeout_seconds) as connection:
        connection.settimeout(timeout_seconds)
        return _ask(connection, manifest, {"join": node_id})


def verify(buffers, manifest, whence):
    """Raises PeerGone when a buffer is not what the manifest announces."""
    for index, (buffer, row) in enumerate(zip(buffers, manifest["buffers"])):
        if digest_of(buffer) != row["digest"]:
            raise PeerGone(f"{whence}: buffer {index} of {manifest['key']} has another digest than announced")


def _mapped(manifest):
    """Copies out of the source's memory; None when it is not on this host, is gone, or has other bytes there."""
    place = manifest.get("memory")
    if not place or place.get("boot_id") is None or place["boot_id"] != boot_id():
        return None
    try:
        # Not blocked: by now there can be a pipe under this number.
        fd = os.open(f"/proc/{int(place['pid'])}/fd/{int(place['fd'])}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as memory:
            spans = zip(place["offsets"], manifest["buffers"])
            buffers = [bytearray(memory[offset:offset + row["bytes"]]) for offset, row in spans]
    except (OSError, ValueError):
        return None
    finally:
        os.close(fd)
    same = all(digest_of(buffer) == row["digest"] for buffer, row in zip(buffers, manifest["buffers"]))
    return buffers if same else None


def _fetched(manifest, address, deadline):
    buffers = [bytearray(row["bytes"]) for row in manifest["buffers"]]
    got = [0] * len(buffers)
    for attempt in range(ATTEMPTS):
        try:
            with _connect(address, deadline) as connection:
                for index, buffer in enumerate(buffers):
                    _fetch(connection, manifest, (index, buffer, got), deadline)
            break
        except OSError as error:
            # What has arrived stays; the next try goes on behind it.
            if attempt == ATTEMPTS - 1 or time.monotonic() >= deadline:
                raise PeerGone(f"{address}: {error}") from error
            time.sleep(0.05 * 2**attempt)
    verify(buffers, manifest, address)
    return buffers


def _fetch(connection, manifest, target, deadline):
    index, buffer, got = target
    if len(buffer) == got[index] and got[index] > 0:
        return
    answer = _ask(connection, manifest, {"buffer": index, "offset": got[index]})
    if answer.get("bytes") != len(buffer) - got[index]:
        raise PeerGone(f"buffer {index} of {manifest['key']} has another size than announced")
    view = memoryview(buffer)
    while got[index] < len(buffer):
        connection.settimeout(max(0.01, min(10.0, deadline - time.monotonic())))
        count = connection.recv_into(view[got[index]:got[index] + CHUNK])
        if count == 0:
            raise ConnectionError("the connection ended")
        got[index] += count


def _ask(connection, manifest, question):
    asked = {"key": manifest["key"], "secret": manifest["secret"], **question}
    connection.sendall(json.dumps(asked).encode() + b"\n")
    line = b""
    while not line.endswith(b"\n"):
        byte = connection.recv(1)
        if byte == b"" or len(line) > LINE_MAX:
            raise ConnectionError("the connection ended")
        line += byte
    try:
        answer = json.loads(line)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise PeerGone(f"{manifest['key']}: no source answers there any more, but something else")
    if not answer.get("ok"):
        raise PeerGone(f"{manifest['key']}: {answer.get('error')}")
    return answer


def _connect(address, deadline):
    host, port = address.rsplit(":", 1)
    connection = socket.create_connection((host.strip("[]"), int(port)), max(0.01, min(10.0, deadline - time.monotonic())))
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection
