"""Adapters of the trainer in PyTorch beside what autograd says of them: the model that computes with W + scale * B A, called as a function of A and B."""

import json
import sys
from array import array

sys.argv = ["torch_grpo", "--model", sys.argv[1], "--lora-rank", "2", "--lora-targets", "k_proj,v_proj"]

import torch  # noqa: E402

try:
    from torch.func import functional_call
except ImportError:
    from torch.nn.utils.stateless import functional_call

from muster_worker.engines import Batch, Sample  # noqa: E402
from muster_worker.service import Invalid  # noqa: E402
from muster_worker.torch_grpo import _options  # noqa: E402
from muster_worker.torch_trainer import TorchGrpo  # noqa: E402

torch.manual_seed(7)
worker = TorchGrpo(_options())
worker.initialize({"kind": "folder", "path": worker.options.model})
first = worker.live[0]
first.copy_(torch.randn(worker.count) * 0.1)  # B is zero at first, and with it the gradient of A
call = type("Call", (), {"check": lambda self: None})()
tokens, old = array("i", [5, 9, 12, 3, 7, 0]), array("f", [-2, -3, -1.5])
sample = Sample(memoryview(tokens), 3, memoryview(old), memoryview(bytes([1, 1, 1])), 1.2)
batch = Batch([sample], 5.0, 0.9, 1e6, 0.7)
worker.begin()
gradient = bytearray(4 * worker.count)
worker.accumulate(batch, memoryview(gradient), call)


def loss_of(flat):
    """The loss of the same sample as a function of the adapters."""
    named, at = {}, 0
    base = worker._named(worker.trained.base)
    for name, weights in base.items():
        named[name] = weights
        if name.endswith(("k_proj.weight", "v_proj.weight")):
            rows, columns = weights.shape
            a = flat[at:at + 2 * columns].view(2, columns)
            b = flat[at + 2 * columns:at + 2 * columns + rows * 2].view(rows, 2)
            named[name] = weights + 2.0 * b @ a
            at += 2 * (rows + columns)
    row = torch.tensor([tokens.tolist()])
    logits = functional_call(worker.model, named, (row,))[:, :-1] / 0.7
    new = torch.log_softmax(logits, -1).gather(-1, row[:, 1:, None])[0, 2:, 0]
    return -((new - torch.tensor(old.tolist())).exp() * 1.2).sum() / 5.0


flat = first.clone().requires_grad_(True)
loss_of(flat).backward()
ours = torch.frombuffer(gradient, dtype=torch.float32)
apart = float((ours - flat.grad).norm() / flat.grad.norm())

worker.stage(memoryview(gradient), {"lr": 1e-2, "beta1": 0.9, "beta2": 0.99, "epsilon": 1e-8, "weightDecay": 0.0, "clipNorm": 0})
worker.promote()
weights, optimizer = bytearray(4 * worker.size), bytearray(worker.kept + 8 * worker.count + 8)
worker.write("live", memoryview(weights), memoryview(optimizer))
whole_flat = torch.frombuffer(weights, dtype=torch.float32)
whole = worker._named(whole_flat)
base = worker._named(worker.trained.base)
moved = sorted({name.split(".")[-2] for name in whole if not torch.equal(whole[name], base[name])})

other = TorchGrpo(worker.options)
other.restore(memoryview(weights), memoryview(optimizer))
raw = bytearray(weights)  # as another processor may round them
rounded = torch.frombuffer(raw, dtype=torch.float32)
at = int((whole_flat != worker.trained.base).nonzero()[0])
rounded[at] = torch.nextafter(rounded[at], torch.tensor(float("inf")))
other.restore(memoryview(raw), memoryview(optimizer))
restored = all(torch.equal(one, another) for one, another in zip(worker.live[:3], other.live[:3])) and worker.live[3] == other.live[3]
try:
    other.restore(memoryview(bytearray(len(weights))), memoryview(optimizer))
    refused = ""
except Invalid as error:
    refused = str(error)
print(json.dumps({"apart": apart, "moved": moved, "elements": worker.count, "restored": restored, "refused": refused}))
