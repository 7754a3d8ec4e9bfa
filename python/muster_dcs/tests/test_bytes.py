"""What travels: tensors in buffers, and buffers between processes."""
import errno
import os
import socket
import threading
import time
import unittest
from itertools import chain
from unittest.mock import Mock, patch

from muster_dcs import Coordinator, CoordinatorError, MetricsCollector, PeerGone, Tensor, TensorFusion
from muster_dcs.pull import digest_of, manifest_of, pull, say_held
from muster_dcs.store import LINE_MAX, Package, PackageServer

TENSORS = {
    "nan": Tensor("float32", (2,), b"\x01\x00\xc0\x7f\xff\xff\xff\xff"),
    "half": Tensor("torch.bfloat16", (3, 1), os.urandom(6)),
    "scalar": Tensor("float64", (), os.urandom(8)),
    "empty": Tensor("int8", (0, 4), b""),
    "eighth": Tensor("float8_e4m3fn", (5,), os.urandom(5)),
    "more": Tensor("float32", (1,), os.urandom(4)),
}


class FusionTest(unittest.TestCase):
    def test_round_trip_is_exact_for_every_type_and_shape(self):
        buffer, rows = TensorFusion().fuse(TENSORS)
        self.assertEqual(TensorFusion().unfuse(buffer, rows), TENSORS)
        self.assertEqual([row["name"] for row in rows], list(TENSORS))
        self.assertTrue(all(row["offset"] % 64 == 0 for row in rows))

    def test_fuses_from_the_threshold_on_and_more_than_one(self):
        one, two = {"a": Tensor("int8", (8,), bytes(8))}, {n: Tensor("int8", (4,), bytes(4)) for n in "ab"}
        fusion = TensorFusion(threshold=8)
        self.assertEqual([fusion.should_fuse(each) for each in (one, two, {})], [False, True, False])
        self.assertFalse(TensorFusion(threshold=9).should_fuse(two))
        self.assertEqual(TensorFusion().threshold, 1024 * 1024)

    def test_refuses_rows_outside_of_the_buffer_and_unknown_types(self):
        row = {"name": "a", "dtype": "int8", "shape": [9], "numel": 9, "offset": 0}
        for bad in (row, {**row, "offset": -1}, {**row, "dtype": "object"}):
            with self.assertRaises(ValueError):
                TensorFusion().unfuse(bytes(8), [bad])
        with self.assertRaisesRegex(ValueError, "data: 3 bytes"):
            Tensor("float32", (1,), bytes(3))


class PullTest(unittest.TestCase):
    def setUp(self):
        self.metrics = MetricsCollector()
        self.server = PackageServer("127.0.0.1", 0, self.metrics)
        self.addCleanup(self.server.close)
        self.address = f"127.0.0.1:{self.server.port}"

    def manifest(self, shared_memory, key="k"):
        buffers = [os.urandom(3_000_000), b"", os.urandom(10)]
        package = Package(buffers, shared_memory)
        self.server.add(key, package)
        return buffers, manifest_of(key, package, [[], [], []], self.address), package

    def test_bytes_arrive_over_tcp_and_through_memory(self):
        for shared_memory in (False, True):
            buffers, manifest, _ = self.manifest(shared_memory)
            self.assertEqual(manifest["memory"] is not None, shared_memory)
            self.assertEqual(pull(manifest, self.metrics, 10), buffers)
        self.assertEqual(self.metrics.get_all()["counters"]["bytes_sent"], 3_000_010)

    def test_memory_that_has_other_bytes_is_not_used(self):
        buffers, manifest, _ = self.manifest(True)
        _, other, _ = self.manifest(True, "other")
        self.assertEqual(pull({**manifest, "memory": other["memory"]}, self.metrics, 10), buffers)

    def test_a_digest_that_differs_gives_nothing_out(self):
        _, manifest, _ = self.manifest(False)
        manifest["buffers"][0]["digest"] = digest_of(b"")
        with self.assertRaisesRegex(PeerGone, "another digest"):
            pull(manifest, self.metrics, 10)

    def test_without_the_secret_there_is_nothing(self):
        _, manifest, package = self.manifest(False)
        with self.assertRaisesRegex(PeerGone, "no such package"):
            pull({**manifest, "secret": "0" * 64}, self.metrics, 10)
        self.assertTrue(say_held(manifest, "rollout_0", 5))
        self.assertEqual(package.held, {"rollout_0"})

    def test_what_answers_in_the_place_of_a_source_that_died_is_an_error_of_the_peer(self):
        for answer in (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"[]\n", b"\xff\n"):
            _, manifest, _ = self.manifest(False)
            with Answering(answer) as other, self.assertRaises(PeerGone):
                pull(manifest, self.metrics, 10, other.address)

    def test_a_source_that_gives_a_byte_now_and_then_does_not_hold_a_receiver_beyond_its_time(self):
        _, manifest, _ = self.manifest(False)
        with Trickling() as source, self.assertRaisesRegex(PeerGone, "the deadline is over|timed out"):
            started = time.monotonic()
            pull(manifest, self.metrics, 0.5, source.address)
        self.assertLess(time.monotonic() - started, 5)

    def test_what_answers_in_the_place_of_a_coordinator_is_an_error_of_the_coordinator(self):
        short = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{"
        for answer in (b"SSH-2.0\r\n", b"", short, short.replace(b"200 OK", b"404 Not Found")):
            with Answering(answer) as other, self.assertRaises(CoordinatorError):
                Coordinator(f"http://{other.address}", max_retries=0).get("/health")

    def test_noise_and_lines_without_end_only_end_their_connection(self):
        buffers, manifest, _ = self.manifest(False)
        for noise in (b"GET / HTTP/1.1\r\n\r\n", b"[]\n", b'{"key": 1}\n', b"x" * 200_000, os.urandom(100) + b"\n"):
            with socket.create_connection(("127.0.0.1", self.server.port)) as connection:
                try:
                    connection.sendall(noise)
                    connection.shutdown(socket.SHUT_WR)
                    connection.recv(1000)
                except OSError:
                    pass
        self.assertEqual(pull(manifest, self.metrics, 10), buffers)

    def test_a_process_that_had_no_free_descriptor_for_a_while_serves_again(self):
        listener = socket.create_server(("127.0.0.1", 0))
        played = Mock(wraps=listener)
        # Once; then it accepts what waits.
        played.accept.side_effect = chain([OSError(errno.EMFILE, "Too many open files")], iter(listener.accept, None))
        with patch("socket.create_server", return_value=played):
            server = PackageServer("127.0.0.1", 0, self.metrics)
        self.addCleanup(server.close)
        buffers, manifest, package = self.manifest(False)
        server.add("k", package)
        self.assertEqual(pull(manifest, self.metrics, 10, f"127.0.0.1:{server.port}"), buffers)
        self.assertEqual(self.metrics.get_all()["errors"], {"accept": 1})

    def test_a_stream_that_breaks_goes_on_where_it_stood(self):
        buffers, manifest, _ = self.manifest(False)
        with FlakyProxy(self.server.port, cuts=[1_000_000, 1_500_000]) as proxy:
            self.assertEqual(pull(manifest, self.metrics, 10, proxy.address), buffers)
        self.assertLess(proxy.passed, 3_200_000)

    def test_a_stream_that_breaks_again_and_again_gives_nothing_out(self):
        _, manifest, _ = self.manifest(False)
        with FlakyProxy(self.server.port, cuts=[1000] * 9) as proxy, self.assertRaises(PeerGone):
            pull(manifest, self.metrics, 10, proxy.address)


class Listening:
    """Hands every connection to `serve`, until it is left."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._run, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._listener.close()

    def _run(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self.serve(client)


class Answering(Listening):
    """Answers every connection with the same bytes, and ends it."""

    def __init__(self, answer):
        self._answer = answer
        super().__init__()

    def serve(self, client):
        with client:
            client.recv(65_536)
            client.sendall(self._answer)


class Trickling(Listening):
    """Says that everything comes, and gives a byte now and then until nobody listens."""

    def serve(self, client):
        client.recv(LINE_MAX)
        try:
            client.sendall(b'{"ok": true, "bytes": 3000000}\n')
            while True:
                client.sendall(b"x")
                time.sleep(0.02)
        except OSError:
            pass
        client.close()


class FlakyProxy(Listening):
    """Passes bytes on, and cuts one connection after another behind so many of them."""

    def __init__(self, port, cuts):
        self._port, self._cuts, self.passed = port, list(cuts), 0
        super().__init__()

    def serve(self, client):
        server = socket.create_connection(("127.0.0.1", self._port))
        threading.Thread(target=_copy, args=(client, server), daemon=True).start()
        left = self._cuts.pop(0) if self._cuts else 1 << 40
        while left > 0:
            part = server.recv(min(65_536, left))
            if part == b"":
                break
            client.sendall(part)
            left, self.passed = left - len(part), self.passed + len(part)
        for each in (client, server):
            # The thread that copies the other way waits on them; only this ends its wait.
            each.shutdown(socket.SHUT_RDWR)
            each.close()


def _copy(source, target):
    try:
        while part := source.recv(65_536):
            target.sendall(part)
    except OSError:
        pass


if __name__ == "__main__":
    unittest.main()
