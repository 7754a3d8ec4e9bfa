"""One version to everybody who is there, in one broadcast of PyTorch's Gloo or NCCL. Whoever comes late or sees a broadcast fail takes the same bytes over
TCP: a collective operation knows no other answer to a death than to fail, so nobody depends on one."""
import logging
import threading
import time
from datetime import timedelta
from enum import Enum

from .backend import TcpBackend
from .pull import PeerGone, join, verify

# From the first who joins on; and until then.
JOIN_SECONDS, FIRST_JOIN_SECONDS = 1.0, 10.0
# What forming a group, and what one window of a broadcast, may take.
STALL_SECONDS = 10.0
WINDOW = 64 << 20
_stall = timedelta(seconds=STALL_SECONDS)
_logger = logging.getLogger(__name__)


class BackendType(str, Enum):
    """Who carries tensors."""

    GLOO = "gloo"
    NCCL = "nccl"
    TCP = "tcp"


class Gathering:
    """Those who take part in the broadcast of a package: of the ones that are expected, who joins before it begins."""

    def __init__(self, expected):
        self._expected, self._joined, self._changed = frozenset(expected), [], threading.Condition()
        self._begun, self._told, self._given_up = False, None, False

    def join(self, node_id):
        """Waits until the broadcast begins. Returns the members and the address of their store, None for who is not among them."""
        with self._changed:
            if self._begun or node_id not in self._expected or node_id in self._joined:
                return None
            self._joined.append(node_id)
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._told is not None or self._given_up, JOIN_SECONDS + STALL_SECONDS)
            return self._told

    def close(self):
        """Waits for those who are expected, for a moment. Returns who joined; nobody joins any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._joined or self._begun, FIRST_JOIN_SECONDS)
            self._changed.wait_for(lambda: len(self._joined) == len(self._expected) or self._begun, JOIN_SECONDS)
            self._begun = True
            return list(self._joined)

    def end(self):
        """Nobody joins any more."""
        with self._changed:
            self._begun = True
            self._changed.notify_all()

    def give_up(self):
        """There will be no broadcast: who joined need not wait for it."""
        with self._changed:
            self._given_up = True
            self._changed.notify_all()

    def tell(self, members, store):
        with self._changed:
            self._told = {"members": members, "store": store}
            self._changed.notify_all()


class DeviceDirectBackend(TcpBackend):
    """Broadcasts over Gloo or NCCL to nodes of the same backend; everything else as over TCP."""

    def __init__(self, backend_type, device_id, *args, **options):
        self.type = BackendType(backend_type)
        self._torch, self._distributed = _torch_with(self.type)
        self._device = f"cuda:{device_id or 0}" if self.type is BackendType.NCCL else "cpu"
        self._broadcasts, self._is_closing = [], False
        super().__init__(*args, **options)

    def publish(self, key, tensor_dict, to=lambda node: False):
        expected = self._expected(to)
        package, manifest = super().publish(key, tensor_dict)
        if not expected:
            return package, manifest
        package.gathering = Gathering(expected)
        thread = threading.Thread(target=self._broadcast, args=(package,), name="dcs-broadcast", daemon=True)
        with self._lock:
            self._broadcasts = [*(each for each in self._broadcasts if each[0].is_alive()), (thread, package)]
            thread.start()
        return package, {**manifest, "collective": self.type.value}

    def close(self):
        self._is_closing = True
        super().close()
        for thread, package in self._broadcasts:
            package.gathering.end()
            with package.changed:
                package.changed.notify_all()
            # PyTorch ends a process with an error when one of its groups is still there at the end.
            thread.join(2 * STALL_SECONDS)

    def _expected(self, to):
        nodes = self.coordinator.get("/topology")["nodes"]
        rows = ((f"{role}_{rank}", info) for role, ranks in nodes.items() for rank, info in ranks.items())
        return {
            node for node, info in rows
            if node != self.node_id and to(node) and info.get("metadata", {}).get("backend_type") == self.type.value
        }

    def _pulled(self, manifest, source, timeout_seconds):
        """Part of the broadcast when it is there in time, otherwise as ever."""
        deadline = time.monotonic() + timeout_seconds
        if manifest.get("collective") == self.type.value:
            # Whatever goes wrong, the bytes are there for the asking.
            try:
                told = join(manifest, self.node_id, min(JOIN_SECONDS + STALL_SECONDS, timeout_seconds), self._peers.get(source))
            except (OSError, PeerGone) as error:  # being late is no fault
                self._failed("joining", error, logging.INFO)
            else:
                try:
                    return self._received(manifest, told)
                except (OSError, PeerGone, RuntimeError, ValueError) as error:  # PyTorch's failures are RuntimeErrors
                    self._failed("taking part in", error)
        return super()._pulled(manifest, source, deadline - time.monotonic())

    def _received(self, manifest, told):
        started = time.monotonic()
        host, port = told["store"].rsplit(":", 1)
        store = self._store(host.strip("[]"), int(port), is_source=False)
        group = self._group_of(store, told["members"].index(self.node_id), len(told["members"]))
        buffers = [bytearray(row["bytes"]) for row in manifest["buffers"]]
        for buffer in buffers:
            self._carry(group, memoryview(buffer), is_source=False)
        verify(buffers, manifest, self.type.value)
        self.metrics.record_recv(sum(len(buffer) for buffer in buffers), time.monotonic() - started)
        return buffers

    def _broadcast(self, package):
        joined = package.gathering.close()
        if not joined:
            return
        try:
            store = self._store(self._host, 0, is_source=True)
            package.gathering.tell([self.node_id, *joined], f"{self._shown_host}:{store.port}")
            group = self._group_of(store, 0, 1 + len(joined))
            started = time.monotonic()
            for index in range(len(package.sizes)):
                self._carry(group, package.view(index), is_source=True)
            self.metrics.record_send(sum(package.sizes), time.monotonic() - started)
            # Its store is here: it stays until the last of them holds everything, or is gone.
            with package.changed:
                package.changed.wait_for(lambda: package.held.issuperset(joined) or self._is_closing, STALL_SECONDS)
        except (OSError, RuntimeError, ValueError) as error:
            self._failed("sending", error)
            package.gathering.give_up()

    def _failed(self, what, error, level=logging.WARNING):
        self.metrics.record_error(self.type.value)
        _logger.log(level, "%s: %s a broadcast over %s failed, and its bytes go over TCP: %s", self.node_id, what, self.type.value, error)

    def _store(self, host, port, is_source):
        """Where the members meet. Not every build has libuv, which newer ones use unless told otherwise; older ones know nothing of it."""
        given = (host, port, None, is_source, _stall, False)
        try:
            return self._distributed.TCPStore(*given, use_libuv=False)
        except TypeError:
            return self._distributed.TCPStore(*given)

    def _group_of(self, store, rank, size):
        """A group of its own for one broadcast: members come and go between two of them."""
        if self.type is BackendType.NCCL:
            self._torch.cuda.set_device(self._device)
            options = self._distributed.ProcessGroupNCCL.Options()
            options._timeout = _stall
            return self._distributed.ProcessGroupNCCL(store, rank, size, options)
        gloo = self._distributed.ProcessGroupGloo
        options = gloo._Options()
        options._devices, options._timeout = [gloo.create_device(hostname=self._host)], _stall
        return gloo(store, rank, size, options)

    def _carry(self, group, view, is_source):
        torch = self._torch
        for start in range(0, len(view), WINDOW):
            part = torch.frombuffer(view[start:start + WINDOW], dtype=torch.uint8)
            moved = part.to(self._device) if self._device != "cpu" else part
            options = self._distributed.BroadcastOptions()
            options.rootRank, options.rootTensor = 0, 0
            group.broadcast([moved], options).wait()
            if not is_source and moved is not part:
                part.copy_(moved)


def _torch_with(backend_type):
    try:
        import torch
        import torch.distributed as distributed
    except ImportError as error:
        raise ValueError(f"backend_type: {backend_type.value} needs PyTorch ({error}); install torch, or use tcp") from error
    name = {BackendType.GLOO: "ProcessGroupGloo", BackendType.NCCL: "ProcessGroupNCCL"}[backend_type]
    if not distributed.is_available() or not hasattr(distributed, name):
        raise ValueError(f"backend_type: PyTorch {torch.__version__} was built without {backend_type.value}; use tcp")
    if backend_type is BackendType.NCCL and not torch.cuda.is_available():
        raise ValueError("backend_type: nccl needs a GPU, and PyTorch sees none; use gloo or tcp")
    return torch, distributed
