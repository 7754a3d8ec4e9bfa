"""A client whose coordinator is played by the test."""
import socket
import threading
import time
import unittest
from unittest.mock import Mock

from muster_dcs import CheckpointEngineClient, CoordinatorError, PeerGone, SendRequest, Tensor
from muster_dcs.store import Package

NOWHERE = "http://127.0.0.1:9"


class Played:
    """Answers every call with the same, and counts."""

    def __init__(self, answer):
        self._answer, self.calls = answer, 0

    def get(self, *_, **__):
        self.calls += 1
        time.sleep(0.001)
        return self._answer


class ClientTest(unittest.TestCase):
    def test_a_wait_for_weights_goes_on_when_the_coordinator_can_not_answer_for_a_while(self):
        client = CheckpointEngineClient(NOWHERE, "rollout", 0)
        passing = [CoordinatorError(status, "later") for status in (0, 429, 503)]
        client.coordinator = Mock(**{"get.side_effect": [*passing, CoordinatorError(403, "no")]})
        with self.assertRaisesRegex(CoordinatorError, "no"):
            client._receive(10)
        self.assertEqual(client.metrics.get_all()["errors"], {"coordinator": 3})

    def test_a_wait_for_weights_ends_when_the_client_is_stopped(self):
        client = CheckpointEngineClient(NOWHERE, "rollout", 0)
        client.coordinator = Played({"version": None, "sender": None, "manifest": None})
        threading.Timer(0.1, client._stop).start()
        started = time.monotonic()
        with self.assertRaisesRegex(CoordinatorError, "rollout_0 was stopped"):
            client._receive(10)
        self.assertLess(time.monotonic() - started, 5)

    def test_an_offer_says_whose_life_it_is_of(self):
        client = CheckpointEngineClient(NOWHERE, "actor", 0)
        client.backend.init_process_group()
        self.addCleanup(client.backend.close)
        client.coordinator = Mock(**{"get.return_value": {"version": None}, "post.side_effect": CoordinatorError(409, "held")})
        with self.assertRaisesRegex(CoordinatorError, "held"):
            client._update(["rollout"], {"w": Tensor("int8", (1,), b"x")}, None)
        self.assertEqual(client.coordinator.post.call_args.args[1]["incarnation"], client._incarnation)

    def test_a_client_that_can_not_register_listens_no_more(self):
        client = CheckpointEngineClient(NOWHERE, "rollout", 0, max_retries=0)
        port = client.backend.init_process_group()
        with self.assertRaises(CoordinatorError):
            client._start()
        with self.assertRaises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)

    def test_a_stage_that_is_behind_does_not_wait_for_who_joined_in_between(self):
        client = CheckpointEngineClient(NOWHERE, "actor", 0, metadata={"pp_rank": 1, "pp_size": 2})
        answers = {"/topology": {"nodes": {"rollout": {"0": {}}}}, "/weight_offer": {"version": 2}}
        client.coordinator = client.backend.coordinator = Mock(**{"get.side_effect": lambda path, **_: answers[path]})
        started = time.monotonic()
        result = client._held(Package([b""], False), ["rollout"], (1, ""))
        self.assertEqual(result.missing, ["rollout_0"])
        self.assertLess(time.monotonic() - started, 5)

    def test_many_receivers_do_not_each_cause_a_look_at_the_topology(self):
        ranks = range(300)
        played = Played({"nodes": {"rollout": {str(rank): {} for rank in ranks}}})
        client = CheckpointEngineClient(NOWHERE, "actor", 0)
        client.backend.coordinator = played
        for wait in (
            lambda package: client.backend.await_held(package, {f"rollout_{rank}" for rank in ranks}),
            lambda package: client._held(package, ["rollout"], (1, "")),
        ):
            package, played.calls = Package([b""], False), 0

            def hold(package=package):
                for rank in ranks:
                    package.hold(f"rollout_{rank}")
                    time.sleep(0.001)

            threading.Thread(target=hold, daemon=True).start()
            wait(package)
            self.assertLess(played.calls, 20)

    def played(self, role, answers, **options):
        """A client whose coordinator gives one answer for each path; posts are taken."""
        client = CheckpointEngineClient(NOWHERE, role, 0, **options)
        client.coordinator = client.backend.coordinator = Mock(**{"get.side_effect": lambda path, **query: answers(path, query)})
        client.backend.node_id = client.node_id
        client.backend.init_process_group()
        self.addCleanup(client.backend.close)
        return client

    def test_a_version_that_is_given_twice_is_refused_and_the_first_one_is_served_on(self):
        newest = {"version": None}
        client = self.played("actor", lambda path, query: newest if path == "/weight_offer" else {"nodes": {}})
        client._update(["rollout"], {"w": Tensor("int8", (1,), b"x")}, 7)
        manifest = client.coordinator.post.call_args.args[1]["manifest"]
        newest["version"] = 7
        with self.assertRaisesRegex(ValueError, "version: 7 is not above 7, the newest of rollout/pp_0; give a higher one"):
            client._update(["rollout"], {"w": Tensor("int8", (1,), b"y")}, 7)
        self.assertEqual(client.backend.fetch(manifest, "actor_0")["w"].data, b"x")

    def test_an_offer_that_one_role_took_is_served_also_when_another_refused_it(self):
        client = self.played("actor", lambda path, query: {"version": None})
        client.coordinator.post.side_effect = [{}, CoordinatorError(409, "held")]
        with self.assertRaisesRegex(CoordinatorError, "held"):
            client._update(["rollout", "actor_fwd"], {"w": Tensor("int8", (1,), b"x")}, None)
        manifest = client.coordinator.post.call_args_list[0].args[1]["manifest"]
        self.assertEqual(client.backend.fetch(manifest, "actor_0")["w"].data, b"x")

    def test_a_wait_in_vain_ends_at_its_time_and_says_for_what_or_for_whom(self):
        said = {"key": "k", "secret": "s", "address": "127.0.0.1:9", "memory": None, "buffers": []}
        row = {"name": "w", "dtype": "int8", "shape": [100], "numel": 100, "offset": 0}
        buffer = {"bytes": 99, "digest": "", "tensors": [row]}
        for version, manifest, reason in (
            (None, None, "nobody has offered any version of rollout/pp_0"),
            (3, None, "the source of version 3 of rollout/pp_0 is gone, and nobody offers another"),
            (0, said, "rollout/pp_0 is at version 0, and none above 0 is offered"),
            (1, {}, "actor_0: manifest.key: is no text"),
            (1, {**said, "buffers": 7}, "actor_0: manifest.buffers: is no list"),
            (1, {**said, "address": "nowhere"}, "actor_0: manifest.address: is no address with a port"),
            (1, {**said, "pp_size": 10**9}, "manifest.pp_size: is no number of stages"),
            (1, {**said, "buffers": [{**buffer, "bytes": -1}]}, "manifest.buffers.0.bytes: is no whole number"),
            (1, {**said, "buffers": [{**buffer, "bytes": 2**70}]}, "are larger than the memory here"),
            (1, {**said, "buffers": [buffer]}, "manifest.buffers.0.tensors: offset: w does not lie in the buffer"),
            (1, {**said, "buffers": [{**buffer, "tensors": [{**row, "dtype": []}]}]}, "dtype: .* of w is unknown"),
            (1, said, "127.0.0.1:9: "),
        ):
            offer = {"version": version, "sender": "actor_0", "manifest": manifest}
            client = self.played("rollout", lambda path, query, offer=offer: offer)
            started = time.monotonic()
            with self.assertRaisesRegex(TimeoutError, f"no whole version after 0 reached rollout in time: .*{reason}"):
                client._receive(0.1)
            self.assertLess(time.monotonic() - started, 5)

    def test_a_receiver_that_was_frozen_until_another_one_got_its_rank_holds_nothing_under_it(self):
        source = self.played("actor", lambda path, query: {"version": None, "nodes": {}})
        source._update(["rollout"], {"w": Tensor("int8", (1,), b"x")}, None)
        manifest = source.coordinator.post.call_args.args[1]["manifest"]
        client = self.played("rollout", lambda path, query: {"version": 1, "sender": "actor_0", "manifest": manifest})
        client.coordinator.once.side_effect = CoordinatorError(409, "rollout_0 is held by another process")
        with self.assertRaisesRegex(CoordinatorError, "held by another"):
            client._receive(5)
        self.assertIsNone(client.weights)
        client.coordinator.once.side_effect = CoordinatorError(0, "no answer")
        self.assertEqual(client._receive(5).version, 1)

    def test_a_transfer_that_fails_leaves_nothing_at_the_coordinator(self):
        client = self.played("actor", lambda path, query: {"nodes": {}})
        client.backend.create_group("g", ["actor_0", "rollout_0"])
        with self.assertRaisesRegex(PeerGone, "rollout_0 died"):
            client.backend.send(SendRequest({"w": Tensor("int8", (1,), b"x")}, 1, "g"))
        client.coordinator.once.assert_called_once_with("GET", "/clear_weight_meta?update_id=g%2Factor_0%3Erollout_0%2F1")


if __name__ == "__main__":
    unittest.main()
