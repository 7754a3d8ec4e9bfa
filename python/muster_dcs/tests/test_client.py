"""A client whose coordinator is played by the test."""
import socket
import threading
import time
import unittest
from unittest.mock import Mock

from muster_dcs import CheckpointEngineClient, CoordinatorError, Tensor
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


if __name__ == "__main__":
    unittest.main()
