"""The client of the checkpoint service: in the coordinator's table while it lives, and weights from those who train to those who use them."""
import asyncio
import hashlib
import random
import threading
import time
import uuid
from dataclasses import dataclass

from .backend import PeerGone, TcpBackend
from .coordinator import Coordinator, CoordinatorError
from .device_direct import BackendType, DeviceDirectBackend
from .fusion import TensorFusion
from .metrics import MetricsCollector

POLL_SECONDS = 20.0


@dataclass(frozen=True)
class Weights:
    """A whole version, verified. `digest` is over the digests of all its buffers."""

    version: int
    digest: str
    tensors: dict


@dataclass(frozen=True)
class UpdateResult:
    """How an update ended: who holds the version, and who is gone or late."""

    version: int
    digest: str
    held: list
    missing: list


class CheckpointEngineClient:
    """One process of a role. `weights` is None or a whole version; it is replaced in one assignment."""

    def __init__(self, coordinator_url, role, rank=None, *, args=None, model=None, model_name=None, world_size=None,
                 ip="127.0.0.1", port=0, device_id=None, metadata=None, quantization_config=None, token=None,
                 heartbeat_interval_seconds=5.0, max_retries=3, retry_delay_seconds=1.0, timeout_seconds=300.0,
                 tensor_fusion_threshold=1024 * 1024, backend_type="tcp", shared_memory=True, metrics=None):
        backend_type = _backend_type(backend_type)
        self.role, self.rank, self.world_size = role, rank, world_size
        # Sources ask only those into a broadcast that speak its language.
        self.metadata = {**(metadata or {}), **({} if backend_type is BackendType.TCP else {"backend_type": backend_type.value})}
        self.model, self.model_name = model, model_name
        self.args, self.quantization_config = args, quantization_config
        self.is_registered, self.weights = False, None
        self.metrics = metrics or MetricsCollector()
        self.coordinator = Coordinator(coordinator_url, token, max_retries, retry_delay_seconds)
        self._beats = Coordinator(coordinator_url, token, 0, retry_delay_seconds, heartbeat_interval_seconds)
        self._ip, self._device_id, self._interval = ip, device_id, heartbeat_interval_seconds
        given = (self.coordinator, ip, port, self.metrics, timeout_seconds, TensorFusion(tensor_fusion_threshold), shared_memory)
        is_tcp = backend_type is BackendType.TCP
        self.backend = TcpBackend(*given) if is_tcp else DeviceDirectBackend(backend_type, device_id, *given)
        self._incarnation, self._stopping, self._heartbeat = uuid.uuid4().hex, threading.Event(), None
        self._published, self._update_lock = [], threading.Lock()
        # Newest version published here: a coordinator that began empty does not know it.
        self._version = 0

    @property
    def node_id(self):
        return f"{self.role}_{self.rank}"

    async def start(self):
        """Opens the backend, registers, and begins to give signs of life."""
        await asyncio.to_thread(self._start)
        return self

    async def stop(self):
        """Leaves the table, and ends heartbeat and transfers."""
        await asyncio.to_thread(self._stop)

    async def topology(self):
        """Living nodes by role and rank, with the membership epoch."""
        return await asyncio.to_thread(self.coordinator.get, "/topology")

    async def peer(self, peer_role=None):
        """The node of this rank in the peer role."""
        return await asyncio.to_thread(self.coordinator.get, "/peer", role=self.role, rank=self.rank, peer_role=peer_role)

    async def update_weights_for_rollout(self, rollout_only=False, actor_fwd_only=False, *, tensors=None, version=None):
        """Publishes this process's weights as the next version, and waits until the living receivers hold it.

        `tensors` is a dict of Tensor, by default the model. Both roles receive unless one is asked for alone.
        With several pipeline stages, give each the same `version`, such as the training step: receivers join stages of one
        version, and a stage whose update failed would otherwise count on from another one.
        """
        roles = [] if actor_fwd_only else ["rollout"]
        roles += [] if rollout_only else ["actor_fwd"]
        return await asyncio.to_thread(self._update, roles, tensors, version)

    async def init_process_groups_for_actor_fwd_ref(self, rollout_id, ref_update_interval=None):
        """Ranks and groups of the update of this rollout, from the coordinator; `need_update_ref` is in the answer."""
        need_ref = ref_update_interval is not None and (rollout_id + 1) % ref_update_interval == 0
        if self.role == "reference" and not need_ref:
            return None
        ranks = await asyncio.to_thread(
            self.coordinator.get, "/get_model_update_group_ranks", role=self.role, rank=self.rank,
            need_update_ref=str(need_ref).lower())
        return {**ranks, "need_update_ref": need_ref}

    async def update_weights_for_actor_fwd_ref(self, rollout_id, ref_update_interval=None, *, tensors=None, version=None):
        """The same as for rollouts, to actor_fwd and, when it is its turn, to reference."""
        groups = await self.init_process_groups_for_actor_fwd_ref(rollout_id, ref_update_interval)
        roles = ["actor_fwd", "reference"] if groups["need_update_ref"] else ["actor_fwd"]
        return await asyncio.to_thread(self._update, roles, tensors, version)

    async def recv_weight_fully_async(self, timeout_seconds=None):
        """The next whole version after the one held. Raises TimeoutError; then `weights` is what it was."""
        return await asyncio.to_thread(self._receive, timeout_seconds or self.backend.timeout)

    recv_weight = recv_weight_fully_async

    def _start(self):
        port = self.backend.init_process_group()
        try:
            self._register(port)
        except BaseException:
            self.backend.close()
            raise
        self._stopping.clear()
        self._heartbeat = threading.Thread(target=self._beat, args=(port,), name="dcs-heartbeat", daemon=True)
        self._heartbeat.start()

    def _register(self, port):
        body = {"role_name": self.role, "rank": self.rank, "world_size": self.world_size, "ip": self._ip, "port": port,
                "device_id": self._device_id, "metadata": self.metadata, "incarnation": self._incarnation}
        self.rank = self.coordinator.post("/register", body)["rank"]
        self.backend.node_id, self.is_registered = self.node_id, True

    def _beat(self, port):
        while not self._stopping.wait(self._interval * random.uniform(0.8, 1.0)):
            path = f"/heartbeat?role={self.role}&rank={self.rank}&incarnation={self._incarnation}"
            try:
                self._beats.once("GET", path)
            except CoordinatorError as error:
                self.metrics.record_error("heartbeat")
                if error.status == 404:
                    self._register_again(port)
                elif error.status == 409:
                    # Another process has the rank by now: this one must not act under it.
                    self.is_registered = False

    def _register_again(self, port):
        """The coordinator forgot this process: it began empty, or somebody unregistered it."""
        try:
            self._register(port)
        except CoordinatorError:
            self.is_registered = False

    def _stop(self):
        self._stopping.set()
        if self._heartbeat is not None:
            self._heartbeat.join(self._interval + 1)
        try:
            if self.is_registered:
                self.coordinator.delete("/unregister", role=self.role, rank=self.rank, incarnation=self._incarnation)
        except CoordinatorError:
            # Its heartbeats have ended, so the coordinator will find out.
            self.metrics.record_error("unregister")
        finally:
            self.is_registered = False
            self.backend.close()

    def _stage(self):
        return int(self.metadata.get("pp_rank", 0))

    def _update(self, roles, tensors, version):
        given = tensors if tensors is not None else self.model
        if not given:
            raise ValueError("tensors: there are none; give tensors, or a model")
        with self._update_lock:
            return self._published_update(roles, given, version)

    def _published_update(self, roles, tensors, asked):
        stage, pp_size = self._stage(), int(self.metadata.get("pp_size", 1))
        groups = {role: f"{role}/pp_{stage}" for role in roles}
        versions = [self.coordinator.get("/weight_offer", group_name=name)["version"] for name in groups.values()]
        version = asked if asked is not None else max([self._version, *(known or 0 for known in versions)]) + 1
        key = f"weights/{stage}/{version}/{self._incarnation}"
        package, manifest = self.backend.publish(key, tensors, lambda node: _role_of(node) in roles)
        manifest = {**manifest, "pp_size": pp_size, "quantization_config": self.quantization_config}
        try:
            for name in groups.values():
                body = {"group_name": name, "version": version, "sender": self.node_id, "manifest": manifest,
                        "incarnation": self._incarnation}
                self.coordinator.post("/offer_weights", body)
        except BaseException:
            # Nobody is to read a version whose update failed, and it must not stay in memory.
            self.backend.withdraw(key)
            raise
        self._version = version
        # Whoever still reads the version before may end; the one before that is over.
        self._published.append(key)
        for old in self._published[:-2]:
            self.backend.withdraw(old)
        self._published = self._published[-2:]
        return self._held(package, roles, (version, _digest([manifest])))

    def _held(self, package, roles, what):
        version, digest = what
        deadline, living, look_at, is_behind = time.monotonic() + self.backend.timeout, [], 0.0, False
        while True:
            # Not each time that one of a thousand receivers says that it holds everything.
            if time.monotonic() >= look_at:
                look_at = time.monotonic() + 1.0
                try:
                    living = [node for node in self.backend.living() if _role_of(node) in roles]
                    is_behind = bool(set(living) - package.held) and self._is_behind(roles, version)
                except CoordinatorError:
                    # It comes back with the same members; bytes do not pass it.
                    self.metrics.record_error("coordinator")
            missing = sorted(set(living) - package.held)
            if not missing or is_behind or time.monotonic() > deadline or self._stopping.is_set():
                return UpdateResult(version, digest, sorted(package.held), missing)
            with package.changed:
                package.changed.wait(1.0)

    def _is_behind(self, roles, version):
        """Whether another stage of the pipeline offers a newer version. Whoever joins between the two sees that one, and waits for this stage to offer
        it, too: nobody takes the older version any more."""
        others = [stage for stage in range(int(self.metadata.get("pp_size", 1))) if stage != self._stage()]
        groups = [f"{role}/pp_{stage}" for role in roles for stage in others]
        offers = (self.coordinator.get("/weight_offer", group_name=name) for name in groups)
        return any((offer["version"] or 0) > version for offer in offers)

    def _receive(self, timeout_seconds):
        deadline = time.monotonic() + timeout_seconds
        held = self.weights.version if self.weights is not None else 0
        while True:
            offers = self._offers(held, deadline)
            try:
                tensors = {}
                for offer in offers:
                    tensors.update(self.backend.fetch(offer["manifest"], offer["sender"]))
            except PeerGone:
                # The source died or went on. What is held stays; the next offer is another one.
                self.metrics.record_error("source")
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
                continue
            manifests = [offer["manifest"] for offer in offers]
            self.weights = Weights(offers[0]["version"], _digest(manifests), tensors)
            for offer in offers:
                self.backend.confirm(offer["manifest"], offer["sender"])
            return self.weights

    def _offers(self, after, deadline):
        """Offers of one version by every stage of the pipeline."""
        while True:
            first = self._offer(0, after, deadline)
            rest = [self._offer(stage, after, deadline) for stage in range(1, int(first["manifest"].get("pp_size", 1)))]
            offers = [first, *rest]
            newest = max(offer["version"] for offer in offers)
            if all(offer["version"] == newest for offer in offers):
                return offers
            after = newest - 1

    def _offer(self, stage, after, deadline):
        while True:
            left = deadline - time.monotonic()
            if self._stopping.is_set():
                raise CoordinatorError(0, f"{self.node_id} was stopped while it waited for weights")
            if left <= 0:
                raise TimeoutError(f"no version after {after} was offered to {self.role} in time")
            try:
                offer = self.coordinator.get("/weight_offer", wait_seconds=min(POLL_SECONDS, max(left, 0.1)),
                                             group_name=f"{self.role}/pp_{stage}", after_version=after)
            except CoordinatorError as error:
                if not error.may_pass:
                    raise
                self.metrics.record_error("coordinator")
                continue
            if offer["manifest"] is not None and offer["version"] > after:
                return offer


def _role_of(node):
    return node.rsplit("_", 1)[0]


def _backend_type(given):
    try:
        return BackendType(given.lower() if isinstance(given, str) else given)
    except ValueError:
        raise ValueError(f"backend_type: {given} is unknown; use one of {', '.join(kind.value for kind in BackendType)}") from None


def _digest(manifests):
    digests = "".join(row["digest"] for manifest in manifests for row in manifest["buffers"])
    return "sha256:" + hashlib.sha256(digests.encode()).hexdigest()


async def create_client(coordinator_url, role, rank=None, **options):
    """A client that has started."""
    return await CheckpointEngineClient(coordinator_url, role, rank, **options).start()
