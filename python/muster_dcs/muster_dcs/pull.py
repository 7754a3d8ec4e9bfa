"""Fetches the buffers of a package: mapped on one host, over TCP otherwise; verified before anybody sees them."""
import hashlib
import json
import mmap
import os
import re
import socket
import time

from .fusion import check_rows
from .store import LINE_MAX, boot_id

CHUNK = 1 << 20
ATTEMPTS = 3
STAGES_MAX = 65_536


class PeerGone(Exception):
    """The process that has the bytes does not give them: it is gone, or has other ones by now."""


def checked_manifest(said, sender):
    """What a source says of its package, when it makes sense: it is the word of another process. Raises PeerGone with the field that is wrong."""
    def need(holds, field, what):
        if not holds:
            raise PeerGone(f"{sender}: manifest.{field}: {what}")

    need(isinstance(said, dict), "", "is no object")
    for field in ("key", "secret", "address"):
        need(isinstance(said.get(field), str), field, "is no text")
    need(re.fullmatch(r".+:\d{1,5}", said["address"]), "address", "is no address with a port")
    need(_is_count(said.get("pp_size", 1)) and 1 <= said.get("pp_size", 1) <= STAGES_MAX, "pp_size", f"is no number of stages (1 to {STAGES_MAX})")
    need(isinstance(said.get("buffers"), list), "buffers", "is no list")
    for index, row in enumerate(said["buffers"]):
        field = f"buffers.{index}"
        need(isinstance(row, dict) and _is_count(row.get("bytes")), f"{field}.bytes", "is no whole number")
        need(isinstance(row.get("digest"), str), f"{field}.digest", "is no text")
        need(isinstance(row.get("tensors"), list), f"{field}.tensors", "is no list")
        try:
            check_rows(row["tensors"], row["bytes"])
        except ValueError as error:
            need(False, f"{field}.tensors", error)
    return said


def _is_count(value):
    return type(value) is int and value >= 0


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
    deadline = time.monotonic() + timeout_seconds
    try:
        with _connect(address or manifest["address"], deadline) as connection:
            _ask(connection, manifest, {"held": node_id}, deadline)
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
    if not isinstance(place, dict) or place.get("boot_id") is None or place["boot_id"] != boot_id():
        return None
    try:
        # Not blocked: by now there can be a pipe under this number.
        fd = os.open(f"/proc/{int(place['pid'])}/fd/{int(place['fd'])}", os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    # What makes no sense is not used; TCP decides.
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    try:
        with mmap.mmap(fd, 0, prot=mmap.PROT_READ) as memory:
            spans = zip(place["offsets"], manifest["buffers"])
            buffers = [bytearray(memory[offset:offset + row["bytes"]]) for offset, row in spans]
    except (OSError, ValueError, TypeError, KeyError, OverflowError):
        return None
    finally:
        os.close(fd)
    same = all(digest_of(buffer) == row["digest"] for buffer, row in zip(buffers, manifest["buffers"]))
    return buffers if same else None


def _fetched(manifest, address, deadline):
    try:
        buffers = [bytearray(row["bytes"]) for row in manifest["buffers"]]
    except (MemoryError, OverflowError) as error:
        raise PeerGone(f"{address}: its {len(manifest['buffers'])} buffers are larger than the memory here") from error
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
    answer = _ask(connection, manifest, {"buffer": index, "offset": got[index]}, deadline)
    if answer.get("bytes") != len(buffer) - got[index]:
        raise PeerGone(f"buffer {index} of {manifest['key']} has another size than announced")
    view = memoryview(buffer)
    while got[index] < len(buffer):
        connection.settimeout(_patience(deadline))
        count = connection.recv_into(view[got[index]:got[index] + CHUNK])
        if count == 0:
            raise ConnectionError("the connection ended")
        got[index] += count


def _patience(deadline):
    """Longest silence of a source, in seconds. Raises TimeoutError at the deadline: bytes that trickle do not move it."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline is over")
    return min(10.0, left)


def _ask(connection, manifest, question, deadline=None):
    asked = {"key": manifest["key"], "secret": manifest["secret"], **question}
    connection.sendall(json.dumps(asked).encode() + b"\n")
    line = b""
    while not line.endswith(b"\n"):
        if deadline is not None:
            connection.settimeout(_patience(deadline))
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
