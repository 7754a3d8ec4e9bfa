"""A trainer in PyTorch: python3 -m muster_worker.torch_grpo --model FOLDER

Trains a causal language model in Hugging Face layout with the loss that the job names: see docs/concepts/algorithms.md.
Gradients are given out shard by shard, and Muster adds them up; weights and moments of AdamW are kept in float32 whatever the model computes in.
With --lora-rank only low-rank adapters are trained. Of several processes (processes.policy) each has a shard of the model and of its state: torch_fsdp.
"""

import argparse
import os
import sys

from .engines import Worker
from .service import Invalid, serve
from .torch_trainer import TorchGrpo, has_fsdp

# After the trainer, which says first what torch must know before it is imported.
import torch  # noqa: E402


def _options():
    parser = argparse.ArgumentParser(prog="muster_worker.torch_grpo", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="folder in Hugging Face layout; its config.json says what is trained")
    parser.add_argument("--implementation", default="auto", choices=["auto", "plain", "transformers"],
                        help="auto: plain for llama and qwen2, else transformers")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--state-device", help="where weights and moments of AdamW are kept: 24 bytes for each weight (default: --device)")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="what the model computes in")
    parser.add_argument("--rows", type=int, default=32, help="sequences of a pass; equal on all replicas, it decides where sums meet")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU; more than one may change bits")
    parser.add_argument("--lora-rank", type=int, default=0, help="rank of the adapters that are trained beside frozen weights; 0: all weights are trained")
    parser.add_argument("--lora-alpha", type=float, help="adapters count alpha / rank; twice the rank unless given")
    parser.add_argument("--lora-targets", default="q_proj,v_proj", type=lambda text: frozenset(filter(None, text.split(","))),
                        help="names of the matrices that have adapters, separated by commas (default: %(default)s)")
    options = parser.parse_args()
    if options.rows < 1 or options.threads < 1:
        parser.error("--rows and --threads are at least 1")
    if options.lora_rank < 0 or not options.lora_targets:
        parser.error("--lora-rank is at least 0, and --lora-targets names a matrix")
    if options.state_device is None:
        options.state_device = options.device
    if options.lora_alpha is None:
        options.lora_alpha = 2.0 * options.lora_rank
    if options.lora_rank > 0 and not options.lora_alpha > 0:
        parser.error("--lora-alpha is above 0")
    return options


class _Refused(Worker):
    """Stands for a trainer that can not be: its reason is the answer to the first question."""

    def __init__(self, error):
        self.error = error

    def describe(self, facts):
        raise self.error


def _trainer(options):
    """A trainer of one process, or one process of a trainer of several, where Muster says that it is that."""
    size = int(os.environ.get("MUSTER_WORKER_RANKS", "1"))
    if size == 1:
        return TorchGrpo(options)
    if options.lora_rank > 0:
        raise Invalid(f"--lora-rank {options.lora_rank} is for trainers of one process; leave it out, or set processes.policy = 1")
    if not has_fsdp():
        raise Invalid(f"torch {torch.__version__} has no fully_shard; install 2.6 or newer, or set processes.policy = 1")
    from .torch_fsdp import FsdpGrpo
    return FsdpGrpo(options)


def main():
    options = _options()
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    try:
        worker = _trainer(options)
    except Invalid as error:
        worker = _Refused(error)
    serve(worker)


if __name__ == "__main__":
    sys.exit(main())
