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
from .pull import checked_manifest

POLL_SECONDS = 20.0
# Time for an answer to arrive after its wait.
ANSWER_SECONDS = 5.0
# Longest wait for the coordinator to say whose a rank is; one that is away does not hold weights up.
LIFE_SECONDS = 2.0


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
        self._published, self._keys, self._update_lock = [], 0, threading.Lock()
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
        """The next whole version after the one held. Raises TimeoutError with the reason; then `weights` is what it was."""
        return await asyncio.to_thread(self._receive, self.backend.timeout if timeout_seconds is None else timeout_seconds)

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

    def _beat_path(self):
        return f"/heartbeat?role={self.role}&rank={self.rank}&incarnation={self._incarnation}"

    def _beat(self, port):
        while not self._stopping.wait(self._interval * random.uniform(0.8, 1.0)):
            try:
                self._beats.once("GET", self._beat_path())
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
        groups = [f"{role}/pp_{stage}" for role in roles]
        version = self._version_for(groups, asked)
        # A key is used once: under that of an update before, its bytes would be served no more.
        self._keys += 1
        key = f"weights/{stage}/{version}/{self._incarnation}/{self._keys}"
        package, manifest = self.backend.publish(key, tensors, lambda node: _role_of(node) in roles)
        manifest = {**manifest, "pp_size": pp_size, "quantization_config": self.quantization_config}
        offered = 0
        try:
            for name in groups:
                body = {"group_name": name, "version": version, "sender": self.node_id, "manifest": manifest,
                        "incarnation": self._incarnation}
                self.coordinator.post("/offer_weights", body)
                offered += 1
        finally:
            if offered:
                self._keep(key, version)
            else:
                # Nobody heard of it, so it must not stay in memory.
                self.backend.withdraw(key)
        return self._held(package, roles, (version, _digest([manifest])))

    def _version_for(self, groups, asked):
        """The version asked for, or the next one of all groups. Raises ValueError before anything is offered."""
        newest = {name: self.coordinator.get("/weight_offer", group_name=name)["version"] for name in groups}
        if asked is None:
            return max([self._version, *(known or 0 for known in newest.values())]) + 1
        for name, known in newest.items():
            if known is not None and known >= asked:
                raise ValueError(f"version: {asked} is not above {known}, the newest of {name}; give a higher one")
        return asked

    def _keep(self, key, version):
        """What is offered is served until the second version after it: whoever still reads the one before may end."""
        self._version = version
        self._published.append(key)
        for old in self._published[:-2]:
            self.backend.withdraw(old)
        self._published = self._published[-2:]

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
        watch = _Watch(self, self.weights.version if self.weights is not None else 0, deadline)
        while True:
            try:
                offers = watch.next()
                tensors = {}
                for offer in offers:
                    tensors.update(self.backend.fetch(offer["manifest"], offer["sender"], deadline - time.monotonic()))
            except PeerGone as error:
                # The source died, went on, or says what makes no sense. What is held stays; the next offer is another one.
                self.metrics.record_error("source")
                watch.why = error
                if time.monotonic() > deadline:
                    raise watch.late() from error
                self._stopping.wait(0.2)
                continue
            self._refuse_lost()
            manifests = [offer["manifest"] for offer in offers]
            self.weights = Weights(offers[0]["version"], _digest(manifests), tensors)
            for offer in offers:
                self.backend.confirm(offer["manifest"], offer["sender"])
            return self.weights

    def _refuse_lost(self):
        """Whoever was frozen until another process got its rank must not say under that rank what it holds."""
        try:
            self.coordinator.once("GET", self._beat_path(), deadline=time.monotonic() + LIFE_SECONDS)
        except CoordinatorError as error:
            if error.status == 409:
                self.is_registered = False
                raise


class _Watch:
    """One wait for a version that every stage of a pipeline offers; it knows at any time why there is none yet."""

    def __init__(self, client, after, deadline):
        self._client, self._after, self._deadline = client, after, deadline
        self.why = "the coordinator was not asked yet"

    def next(self):
        """Offers of one version by every stage. Raises TimeoutError with the reason, PeerGone for a source that makes no sense."""
        floor = self._after
        while True:
            first = self._offer(0, floor)
            stages = first["manifest"].get("pp_size", 1)
            offers = [first, *(self._offer(stage, floor) for stage in range(1, stages))]
            newest = max(offer["version"] for offer in offers)
            if any(offer["version"] != newest for offer in offers):
                floor = newest - 1
                continue
            for stage, offer in enumerate(offers):
                if offer["manifest"].get("pp_size", 1) != stages:
                    raise PeerGone(f"{offer['sender']}: manifest.pp_size: stage {stage} is of {offer['manifest'].get('pp_size', 1)} stages, and stage 0 of {stages}")
            return offers

    def late(self):
        return TimeoutError(f"no whole version after {self._after} reached {self._client.role} in time: {self.why}")

    def _offer(self, stage, after):
        client, name, is_asked = self._client, f"{self._client.role}/pp_{stage}", False
        while True:
            left = self._deadline - time.monotonic()
            if client._stopping.is_set():
                raise CoordinatorError(0, f"{client.node_id} was stopped while it waited for weights")
            # Each stage is asked at least once: otherwise nothing is known of it.
            if is_asked and left <= 0:
                raise self.late()
            is_asked = True
            try:
                # Its answer is on its way when the wait is over.
                offer = client.coordinator.get("/weight_offer", wait_seconds=min(POLL_SECONDS, max(left, 0.1)), deadline=self._deadline + ANSWER_SECONDS,
                                               group_name=name, after_version=after)
            except CoordinatorError as error:
                if not error.may_pass:
                    raise
                client.metrics.record_error("coordinator")
                self.why = error
                continue
            if offer["version"] is not None and offer["manifest"] is not None and offer["version"] > after:
                return {**offer, "manifest": checked_manifest(offer["manifest"], offer["sender"])}
            self.why = _why_none(offer, name, after)


def _why_none(offer, name, after):
    if offer["version"] is None:
        return f"nobody has offered any version of {name}"
    if offer["manifest"] is None:
        return f"the source of version {offer['version']} of {name} is gone, and nobody offers another"
    return f"{name} is at version {offer['version']}, and none above {after} is offered"


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
