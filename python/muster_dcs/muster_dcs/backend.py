"""Tensors from process to process: point to point and one to all, announced through the coordinator and fetched from the sender."""
import asyncio
import threading
import time
import urllib.parse
import uuid
from dataclasses import dataclass, field

from .coordinator import CoordinatorError
from .fusion import TensorFusion
from .pull import PeerGone, checked_manifest, manifest_of, pull, say_held
from .store import Package, PackageServer

__all__ = ["CommHandle", "PeerGone", "RecvRequest", "SendRequest", "TcpBackend"]


@dataclass
class SendRequest:
    """What to send to whom. `dst_rank` is a rank of the group."""

    tensor_dict: dict
    dst_rank: int
    group_name: str = None
    async_op: bool = False
    metadata: dict = field(default_factory=dict)


@dataclass
class RecvRequest:
    """What to receive from whom. With `tensor_names`, anything else that arrives is an error."""

    src_rank: int
    tensor_names: list = None
    group_name: str = None
    metadata: dict = field(default_factory=dict)


class CommHandle:
    """An operation that goes on in a thread of its own."""

    def __init__(self, work, metrics):
        self.request_id, self.is_complete, self.result, self.error = uuid.uuid4().hex, False, None, None
        self._done = threading.Event()
        metrics.pending_operations.inc()

        def run():
            try:
                self.result = work()
            except Exception as error:  # Whoever waits gets it.
                self.error = error
                metrics.record_error(type(error).__name__)
            finally:
                metrics.pending_operations.dec()
                self.is_complete = True
                self._done.set()

        threading.Thread(target=run, name="dcs-operation", daemon=True).start()

    def wait(self, timeout=None):
        """The result. Raises the operation's error, or TimeoutError."""
        if not self._done.wait(timeout):
            raise TimeoutError(f"operation {self.request_id} is not complete after {timeout} s")
        if self.error is not None:
            raise self.error
        return self.result

    async def wait_async(self, timeout=None):
        return await asyncio.to_thread(self.wait, timeout)


@dataclass
class _Group:
    members: list
    rank: int
    sent: dict = field(default_factory=dict)
    received: dict = field(default_factory=dict)


class TcpBackend:
    """Bytes over TCP between hosts, through memory on one host."""

    def __init__(self, coordinator, host="127.0.0.1", port=0, metrics=None, timeout_seconds=300.0, fusion=None,
                 shared_memory=True):
        self.coordinator, self.metrics, self.timeout = coordinator, metrics, timeout_seconds
        self.fusion = fusion or TensorFusion()
        self.node_id, self._shared_memory = None, shared_memory
        self._host, self._port, self._server = host, port, None
        self._groups, self._peers, self._lock = {}, {}, threading.Lock()

    def init_process_group(self):
        """Opens the server. Returns its port."""
        if self._server is None:
            self._server = PackageServer(self._host, self._port, self.metrics)
        return self._server.port

    @property
    def address(self):
        return f"{self._shown_host}:{self._server.port}"

    @property
    def _shown_host(self):
        return f"[{self._host}]" if ":" in self._host else self._host

    def register_peer(self, node_id, address):
        """Reaches a node at this address and not at the one that it announces."""
        self._peers[node_id] = address

    def create_group(self, group_name, members):
        """A group of node ids in rank order, this one among them. A group that is formed again needs another name."""
        if self.node_id not in members:
            raise ValueError(f"members: {self.node_id} is not in {members}")
        with self._lock:
            if group_name in self._groups:
                raise ValueError(f"group_name: {group_name} is there already")
            self._groups[group_name] = _Group(list(members), members.index(self.node_id))

    def destroy_group(self, group_name):
        with self._lock:
            self._groups.pop(group_name, None)

    def send(self, request):
        """Sends; complete when the receiver holds everything. Returns a handle, complete already unless `async_op`."""
        name, group = self._group(request.group_name)
        target = group.members[request.dst_rank]
        key = self._next(name, group.sent, f"{self.node_id}>{target}")
        handle = self._started(lambda: self._give(key, name, request.tensor_dict, ([target], request.metadata)))
        if not request.async_op:
            handle.wait()
        return handle

    def recv(self, request):
        """Receives. Returns a handle whose result is a dict of tensors."""
        name, group = self._group(request.group_name)
        source = group.members[request.src_rank]
        key = self._next(name, group.received, f"{source}>{self.node_id}")
        return self._started(lambda: self._take(key, source, request.tensor_names))

    def broadcast(self, tensor_dict, src_rank, group_name=None):
        """From one to all others of the group. Returns the tensors on every rank."""
        return self.broadcast_async(tensor_dict, src_rank, group_name).wait()

    def broadcast_async(self, tensor_dict, src_rank, group_name=None):
        name, group = self._group(group_name)
        source = group.members[src_rank]
        is_source = src_rank == group.rank
        key = self._next(name, group.sent if is_source else group.received, f"{source}>*")
        others = [member for member in group.members if member != self.node_id]

        def work():
            if not is_source:
                return self._take(key, source, None)
            self._give(key, name, tensor_dict, (others, {}))
            return tensor_dict

        return self._started(work)

    def publish(self, key, tensor_dict, to=None):
        """Serves tensors under a key. `to` says of a node id whether it is to take them. Returns the package and its manifest."""
        pairs = self.fusion.buffers(tensor_dict)
        package = Package([buffer for buffer, _ in pairs], self._shared_memory)
        manifest = manifest_of(key, package, [rows for _, rows in pairs], self.address)
        self._server.add(key, package)
        return package, manifest

    def withdraw(self, key):
        """Serves a key no more."""
        if self._server is not None:
            self._server.remove(key)

    def fetch(self, manifest, source, timeout_seconds=None):
        """The tensors of a manifest, verified. Raises PeerGone."""
        buffers, tensors = self._pulled(manifest, source, self.timeout if timeout_seconds is None else timeout_seconds), {}
        for buffer, row in zip(buffers, manifest["buffers"]):
            tensors.update(self.fusion.unfuse(buffer, row["tensors"]))
        return tensors

    def _pulled(self, manifest, source, timeout_seconds):
        return pull(manifest, self.metrics, timeout_seconds, self._peers.get(source))

    def confirm(self, manifest, source):
        return say_held(manifest, self.node_id, 10.0, self._peers.get(source))

    def close(self):
        """Ends every transfer."""
        server, self._server = self._server, None
        if server is not None:
            server.close()

    def _started(self, work):
        return CommHandle(work, self.metrics)

    def _group(self, name):
        with self._lock:
            chosen = name if name is not None or len(self._groups) != 1 else next(iter(self._groups))
            if chosen not in self._groups:
                raise ValueError(f"group_name: there is no group {chosen}; create it with create_group")
            return chosen, self._groups[chosen]

    def _next(self, name, counts, pair):
        with self._lock:
            counts[pair] = counts.get(pair, 0) + 1
            return f"{name}/{pair}/{counts[pair]}"

    def _give(self, key, group_name, tensor_dict, to):
        receivers, metadata = to
        package, manifest = self.publish(key, tensor_dict, set(receivers).__contains__)
        names = list(tensor_dict)
        try:
            self.coordinator.post("/send_weight_meta", {
                "update_id": key, "sender": self.node_id, "group_name": group_name, "names": names,
                "dtypes": [tensor_dict[name].dtype for name in names],
                "shapes": [list(tensor_dict[name].shape) for name in names],
                "metadata": {**metadata, "manifest": manifest},
            })
            self.await_held(package, receivers)
            self.coordinator.get("/clear_weight_meta", update_id=key)
        except BaseException:
            self._abandon(key)
            raise
        finally:
            self.withdraw(key)

    def _abandon(self, key):
        """Whoever comes late to what failed hears that it is over, and the coordinator keeps nothing of it."""
        try:
            self.coordinator.once("GET", f"/clear_weight_meta?{urllib.parse.urlencode({'update_id': key})}")
        except CoordinatorError:
            # It ends there by itself when nobody adds to it.
            self.metrics.record_error("clear")

    def await_held(self, package, receivers):
        """Waits until all of them hold a package. Raises PeerGone when one dies, TimeoutError at the deadline."""
        deadline, wanted, look_at = time.monotonic() + self.timeout, set(receivers), 0.0
        while not wanted <= package.held:
            with package.changed:
                package.changed.wait(1.0)
            missing = wanted - package.held
            dead = set()
            # Not each time that one of a thousand receivers says that it holds everything.
            if missing and time.monotonic() >= look_at:
                look_at = time.monotonic() + 1.0
                dead = missing - self.living() - package.held
            if dead:
                raise PeerGone(f"{', '.join(sorted(dead))} died before it held everything")
            if missing and time.monotonic() > deadline:
                raise TimeoutError(f"{', '.join(sorted(missing))} did not take everything within {self.timeout} s")

    def living(self):
        """Ids of all living nodes."""
        nodes = self.coordinator.get("/topology")["nodes"]
        return {f"{role}_{rank}" for role, ranks in nodes.items() for rank in ranks}

    def _take(self, key, source, names):
        deadline = time.monotonic() + self.timeout
        while time.monotonic() < deadline:
            wait = min(20.0, max(0.1, deadline - time.monotonic()))
            entries = self.coordinator.get("/recv_weight_meta", wait_seconds=wait, update_id=key, index=0)
            if not entries and source not in self.living():
                raise PeerGone(f"{source} is not there")
            if not entries:
                continue
            manifest = checked_manifest((entries[0].get("metadata") or {}).get("manifest"), source)
            tensors = self.fetch(manifest, source)
            if names is not None and set(names) != set(tensors):
                raise ValueError(f"tensor_names: {sorted(tensors)} arrived, and {sorted(names)} were expected")
            self.confirm(manifest, source)
            return tensors
        raise TimeoutError(f"{source} sent nothing within {self.timeout} s")
