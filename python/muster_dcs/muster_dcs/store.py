"""What a process gives away: packages of buffers, in memory that others on this host can map, and the server that serves them."""
import errno
import hmac
import json
import mmap
import os
import secrets
import socket
import threading
import time

LINE_MAX = 65_536
CHUNK = 1 << 20
CONNECTIONS_MAX = 1_024
IDLE_SECONDS = 60.0


def boot_id():
    """A name for this run of this host's kernel: who says the same can map the same memory."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except OSError:
        return None


class Package:
    """Buffers under a key. Whoever knows the secret may read them; readers say when they hold them."""

    def __init__(self, buffers, shared_memory=True):
        self.secret = secrets.token_hex(32)
        self.sizes = [len(buffer) for buffer in buffers]
        self._offsets, end = [], 0
        for size in self.sizes:
            self._offsets.append(end)
            end += -(-size // 64) * 64
        self._fd = _shared_memory(end) if shared_memory else None
        self._memory = bytearray(end) if self._fd is None else mmap.mmap(self._fd, max(end, 1))
        self._view = memoryview(self._memory)
        for offset, buffer in zip(self._offsets, buffers):
            self._view[offset:offset + len(buffer)] = buffer
        self.held, self.changed = set(), threading.Condition()
        # Where it is broadcast, too: who takes part.
        self.gathering = None

    def view(self, index, offset=0):
        start = self._offsets[index]
        return self._view[start + offset:start + self.sizes[index]]

    def place(self):
        """Where processes of this host can map the buffers; None when they can not."""
        if self._fd is None:
            return None
        return {"boot_id": boot_id(), "pid": os.getpid(), "fd": self._fd, "offsets": self._offsets}

    def hold(self, node_id):
        with self.changed:
            self.held.add(node_id)
            self.changed.notify_all()

    def close(self):
        fd, self._fd = self._fd, None
        if fd is not None:
            os.close(fd)


def _shared_memory(size):
    try:
        fd = os.memfd_create("muster-dcs", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        return None
    try:
        os.posix_fallocate(fd, 0, max(size, 1))
        return fd
    except OSError:
        os.close(fd)
        return None


class PackageServer:
    """Serves packages over TCP. One line of JSON asks, one line answers, then bytes."""

    def __init__(self, host, port, metrics):
        self._packages, self._lock, self._metrics = {}, threading.Lock(), metrics
        self._connections = set()
        self._listener = socket.create_server((host, port), family=_family_of(host))
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, name="dcs-serve", daemon=True).start()

    def add(self, key, package):
        """Makes a package known. One that stood there before is served no more."""
        with self._lock:
            before = self._packages.pop(key, None)
            self._packages[key] = package
            self._count()
        if before is not None:
            before.close()

    def remove(self, key):
        with self._lock:
            package = self._packages.pop(key, None)
            self._count()
        if package is not None:
            package.close()

    def close(self):
        with self._lock:
            packages, self._packages = list(self._packages.values()), {}
            connections = list(self._connections)
            self._count()
        _end(self._listener)
        for connection in connections:
            _end(connection)
        for package in packages:
            package.close()

    def _count(self):
        used = sum(sum(package.sizes) for package in self._packages.values())
        self._metrics.memory_buffer_usage_bytes.set(used)

    def _accept(self):
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError as error:
                if error.errno in (errno.EBADF, errno.EINVAL):  # close() has ended the listener.
                    return
                # No free descriptor, or a caller that has gone: who waits is served later.
                self._metrics.record_error("accept")
                time.sleep(0.1)
                continue
            with self._lock:
                full = len(self._connections) >= CONNECTIONS_MAX
                if not full:
                    self._connections.add(connection)
            if full:
                connection.close()
                continue
            threading.Thread(target=self._serve, args=(connection,), name="dcs-peer", daemon=True).start()

    def _serve(self, connection):
        self._metrics.active_connections.inc()
        try:
            connection.settimeout(IDLE_SECONDS)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with connection.makefile("rb") as lines:
                while True:
                    line = lines.readline(LINE_MAX)
                    if not line.endswith(b"\n") or not self._answer(connection, line):
                        return
        except (OSError, ValueError):
            self._metrics.record_error("peer")
        finally:
            self._metrics.active_connections.dec()
            with self._lock:
                self._connections.discard(connection)
            connection.close()

    def _answer(self, connection, line):
        asked = json.loads(line)
        key, secret = (asked.get("key"), asked.get("secret")) if isinstance(asked, dict) else (None, None)
        with self._lock:
            package = self._packages.get(key) if isinstance(key, str) else None
        if package is None or not isinstance(secret, str) or not hmac.compare_digest(secret, package.secret):
            connection.sendall(b'{"ok": false, "error": "key: there is no such package"}\n')
            return False
        if "held" in asked:
            package.hold(str(asked["held"])[:256])
            connection.sendall(b'{"ok": true}\n')
            return True
        if "join" in asked:
            told = package.gathering.join(str(asked["join"])[:256]) if package.gathering is not None else None
            connection.sendall(json.dumps({"ok": True, **told}).encode() + b"\n" if told else b'{"ok": false, "error": "join: the broadcast has begun"}\n')
            return False
        index, offset = asked.get("buffer"), asked.get("offset", 0)
        if type(index) is not int or type(offset) is not int or not 0 <= index < len(package.sizes) or not 0 <= offset <= package.sizes[index]:
            connection.sendall(b'{"ok": false, "error": "buffer, offset: out of range"}\n')
            return False
        part = package.view(index, offset)
        started = time.monotonic()
        connection.sendall(json.dumps({"ok": True, "bytes": len(part)}).encode() + b"\n")
        for at in range(0, len(part), CHUNK):
            connection.sendall(part[at:at + CHUNK])
        self._metrics.record_send(len(part), time.monotonic() - started)
        return True


def _family_of(host):
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _end(connection):
    """Ends a socket also for the thread that waits on it."""
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    connection.close()
