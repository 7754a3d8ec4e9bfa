"""Broadcasts over Gloo, with the coordinator played by the test. Without PyTorch only what is said then is tested."""
import os
import sys
import threading
import time
import unittest
from unittest.mock import Mock, patch

from muster_dcs import BackendType, CheckpointEngineClient, DeviceDirectBackend, MetricsCollector, Tensor, TcpBackend
from muster_dcs import device_direct
from muster_dcs.pull import join

try:
    import torch.distributed as distributed
    HAS_GLOO = distributed.is_available() and hasattr(distributed, "ProcessGroupGloo")
except ImportError:
    HAS_GLOO = False

NOWHERE = "http://127.0.0.1:9"
TENSORS = {name: Tensor("uint8", (700_001,), os.urandom(700_001)) for name in "ab"} | {"none": Tensor("int8", (0,), b"")}


class WithoutTest(unittest.TestCase):
    def test_an_unknown_backend_is_named_with_those_there_are(self):
        with self.assertRaisesRegex(ValueError, "backend_type: ucx is unknown; use one of gloo, nccl, tcp"):
            CheckpointEngineClient(NOWHERE, "actor", 0, backend_type="ucx")

    def test_without_pytorch_gloo_is_refused_with_the_way_out(self):
        with patch.dict(sys.modules, {"torch": None}), self.assertRaisesRegex(ValueError, "gloo needs PyTorch .*; install torch, or use tcp"):
            CheckpointEngineClient(NOWHERE, "actor", 0, backend_type="GLOO")

    def test_a_client_over_tcp_says_nothing_of_a_backend(self):
        self.assertEqual(CheckpointEngineClient(NOWHERE, "actor", 0, metadata={"pp_rank": 1}).metadata, {"pp_rank": 1})


@unittest.skipUnless(HAS_GLOO, "no PyTorch with Gloo")
class GlooTest(unittest.TestCase):
    def setUp(self):
        # A window is smaller than a buffer, and what stalls does so for a moment.
        for name, value in {"WINDOW": 300_000, "JOIN_SECONDS": 0.5, "FIRST_JOIN_SECONDS": 2.0}.items():
            patching = patch.object(device_direct, name, value)
            patching.start()
            self.addCleanup(patching.stop)
        self.nodes = {}
        self.source = self.node("actor_0", "gloo")

    def node(self, node_id, kind):
        role, rank = node_id.rsplit("_", 1)
        metadata = {} if kind == "tcp" else {"backend_type": kind}
        self.nodes.setdefault(role, {})[rank] = {"metadata": metadata}
        coordinator = Mock(**{"get.return_value": {"nodes": self.nodes}})
        given = (coordinator, "127.0.0.1", 0, MetricsCollector(), 20.0, None, False)
        backend = TcpBackend(*given) if kind == "tcp" else DeviceDirectBackend(kind, None, *given)
        backend.node_id = node_id
        backend.init_process_group()
        self.addCleanup(backend.close)
        return backend

    def published(self):
        return self.source.publish("k", TENSORS, lambda node: node.startswith("rollout"))

    def taken(self, nodes, manifest):
        """What each of them has, all at once."""
        results = {}

        def take(node):
            results[node.node_id] = node.fetch(manifest, "actor_0")
            node.confirm(manifest, "actor_0")

        threads = [threading.Thread(target=take, args=(node,)) for node in nodes]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
        return results

    def test_everybody_who_is_there_has_it_in_one_broadcast(self):
        receivers = [self.node(f"rollout_{rank}", "gloo") for rank in range(3)]
        package, manifest = self.published()
        with patch("muster_dcs.backend.pull", side_effect=AssertionError("over TCP")):
            results = self.taken(receivers, manifest)
        self.assertEqual(results, {f"rollout_{rank}": TENSORS for rank in range(3)})
        self.assertEqual(package.held, set(results))

    def test_only_nodes_of_the_same_backend_are_asked_into_it_and_others_take_it_as_ever(self):
        receivers = [self.node("rollout_0", "gloo"), self.node("rollout_1", "tcp")]
        self.node("actor_fwd_0", "gloo")
        package, manifest = self.published()
        self.assertEqual(package.gathering._expected, {"rollout_0"})
        self.assertEqual(self.taken(receivers, manifest), {"rollout_0": TENSORS, "rollout_1": TENSORS})

    def test_who_is_late_takes_it_over_tcp(self):
        early, late = self.node("rollout_0", "gloo"), self.node("rollout_1", "gloo")
        _, manifest = self.published()
        self.assertEqual(self.taken([early], manifest), {"rollout_0": TENSORS})
        self.assertEqual(self.taken([late], manifest), {"rollout_1": TENSORS})
        self.assertEqual(late.metrics.get_all()["errors"], {"gloo": 1})

    def test_one_that_joins_and_dies_costs_the_others_no_byte(self):
        with patch.object(device_direct, "_stall", device_direct.timedelta(seconds=1)):
            receivers = [self.node(f"rollout_{rank}", "gloo") for rank in range(2)]
            self.node("rollout_2", "gloo")
            _, manifest = self.published()
            dying = threading.Thread(target=join, args=(manifest, "rollout_2", 5))
            dying.start()
            results = self.taken(receivers, manifest)
            dying.join()
        self.assertEqual(results, {"rollout_0": TENSORS, "rollout_1": TENSORS})

    def test_bytes_of_a_broadcast_that_are_not_those_announced_are_taken_anew(self):
        receiver = self.node("rollout_0", "gloo")
        carry = receiver._carry

        def damage(group, view, is_source):
            carry(group, view, is_source)
            view[:1] = bytes([view[0] ^ 1]) if len(view) else b""

        _, manifest = self.published()
        with patch.object(receiver, "_carry", damage):
            self.assertEqual(self.taken([receiver], manifest), {"rollout_0": TENSORS})
        self.assertEqual(receiver.metrics.get_all()["errors"], {"gloo": 1})

    def test_nobody_joins_under_a_name_that_is_not_expected_or_there_already(self):
        for rank in range(2):
            self.node(f"rollout_{rank}", "gloo")
        package, manifest = self.published()
        waiting = threading.Thread(target=join, args=(manifest, "rollout_0", 5))
        waiting.start()
        while not package.gathering._joined:
            time.sleep(0.001)
        self.assertIsNone(package.gathering.join("rollout_7"))
        self.assertIsNone(package.gathering.join("rollout_0"))
        waiting.join()

    def test_a_broadcast_that_can_not_begin_says_why_and_keeps_nobody_waiting(self):
        receiver = self.node("rollout_0", "gloo")
        _, manifest = self.published()
        started = time.monotonic()
        with patch.object(self.source, "_store", side_effect=RuntimeError("no libuv")), self.assertLogs("muster_dcs", "WARNING") as logs:
            self.assertEqual(self.taken([receiver], manifest), {"rollout_0": TENSORS})
        self.assertLess(time.monotonic() - started, device_direct.STALL_SECONDS / 2)
        self.assertIn("actor_0: sending a broadcast over gloo failed, and its bytes go over TCP: no libuv", "".join(logs.output))

    def test_closing_does_not_wait_for_those_who_never_come(self):
        self.node("rollout_0", "gloo")
        self.published()
        started = time.monotonic()
        self.source.close()
        self.assertLess(time.monotonic() - started, 1.5)

    def test_a_client_says_its_backend_when_it_registers(self):
        client = CheckpointEngineClient(NOWHERE, "actor", 0, backend_type=BackendType.GLOO, metadata={"pp_rank": 1})
        self.assertEqual(client.metadata, {"pp_rank": 1, "backend_type": "gloo"})

    def test_nccl_is_refused_where_there_is_no_gpu(self):
        if device_direct._torch_with(BackendType.GLOO)[0].cuda.is_available():
            self.skipTest("there is one")
        with self.assertRaisesRegex(ValueError, "backend_type: .*nccl"):
            CheckpointEngineClient(NOWHERE, "actor", 0, backend_type="nccl")


if __name__ == "__main__":
    unittest.main()
