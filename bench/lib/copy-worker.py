"""A worker that copies what it is given into memory of its own, and back: it measures the way and computes nothing."""
import os

from muster_worker import Worker, serve, table_of


class Copy(Worker):
    def describe(self, facts):
        count = int(os.environ["COPY_BYTES"]) // 4
        self.state = memoryview(bytearray(4 * count))
        return {"roles": ["policy"], "build": "copy-1", "modelId": "copy", "vocab": facts["vocab"], "maxContext": facts["maxContext"],
                "tensors": table_of([("copy", "f32", [count])]), "optimizerBytes": 0, "deterministic": True}

    def initialize(self, source):
        pass

    def restore(self, weights, optimizer):
        self.state[:] = weights

    def write(self, which, weights, optimizer):
        weights[:] = self.state

    def begin(self):
        pass

    def discard(self):
        pass


serve(Copy())
