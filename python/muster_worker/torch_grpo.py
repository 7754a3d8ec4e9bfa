"""A trainer in PyTorch: python3 -m muster_worker.torch_grpo --model FOLDER

Trains a causal language model in Hugging Face layout with the clipped surrogate, and a penalty by the distance to a reference model where one is named.
Gradients are given out shard by shard, and Muster adds them up; weights and moments of AdamW are kept in float32 whatever the model computes in.
With --lora-rank only low-rank adapters are trained.
"""

import argparse
import hashlib
import os
import sys

# Before torch is imported: without it cuBLAS may add up in another order each time.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402

from .engines import Worker, table_of  # noqa: E402
from .hf_folder import read_config, read_tensors  # noqa: E402
from .plain_model import MODEL_TYPES, PlainModel  # noqa: E402
from .service import Invalid, serve  # noqa: E402
from .trained import Adapters, AllWeights  # noqa: E402


class TorchGrpo(Worker):
    """Live state and candidate are what is trained, flat float32, with its moments; the model computes with the weights that follow from one of them."""

    def __init__(self, options):
        self.options = options
        self.config = read_config(options.model)
        self.model, self.implementation = _model_of(self.config, options)
        self.model.to(device=options.device, dtype=getattr(torch, options.dtype))
        self.model.eval()
        self.parameters = list(self.model.named_parameters())
        self.trained = AllWeights(self.parameters)
        self.size = self.trained.count
        if options.lora_rank > 0:
            base = torch.empty(self.size)
            _fill(self._named(base), options.model)
            self.trained = Adapters(self.parameters, base, options.lora_rank, options.lora_alpha, options.lora_targets)
        self.count, self.kept = self.trained.count, self.trained.kept_bytes
        self.reference = None
        if options.reference:
            self.reference = _model_of(read_config(options.reference), options)[0]
            self.reference.to(device=options.device, dtype=getattr(torch, options.dtype))
            self.reference.eval().requires_grad_(False)
            _fill(dict(self.reference.named_parameters()), options.reference)
        self.live = self.candidate = self.loaded = None

    def describe(self, facts):
        for field, has in (("vocab", self.config["vocab_size"]), ("maxContext", self.config["max_position_embeddings"])):
            if has < facts[field]:
                raise Invalid(f"the model has {field} {has}, and the task needs {facts[field]}")
        kind, layers, hidden = (self.config[name] for name in ("model_type", "num_hidden_layers", "hidden_size"))
        vocab = self.config["vocab_size"]
        return {
            "roles": ["policy"], "build": self._build(), "modelId": f"{kind}-l{layers}-d{hidden}-v{vocab}", "vocab": vocab,
            "maxContext": self.config["max_position_embeddings"],
            "tensors": table_of([(name, "f32", parameter.shape) for name, parameter in self.parameters]),
            "gradientElements": self.count, "optimizerBytes": self.kept + 8 * self.count + 8, "deterministic": True, "modelConfig": self.config,
        }

    def initialize(self, source):
        random = torch.Generator().manual_seed(source.get("seed", 0))
        weights = None
        if source["kind"] == "folder":
            weights = torch.empty(self.size)
            _fill(self._named(weights), source["path"])
        flat, zeros = self.trained.begin(weights, random), torch.zeros(self.count)
        self.live, self.candidate, self.loaded = (flat, zeros, zeros.clone(), 0), None, None

    def restore(self, weights, optimizer):
        kept, rest = optimizer[:self.kept], optimizer[self.kept:]
        moments = torch.frombuffer(rest[:8 * self.count], dtype=torch.float32)
        updates = int.from_bytes(rest[8 * self.count:], "little")
        flat = self.trained.take(torch.frombuffer(weights, dtype=torch.float32), kept)
        self.live = (flat, moments[:self.count].clone(), moments[self.count:].clone(), updates)
        self.candidate, self.loaded = None, None

    def write(self, which, weights, optimizer):
        flat, first, second, updates = getattr(self, which)
        torch.frombuffer(weights, dtype=torch.float32).copy_(self.trained.weights(flat))
        kept, rest = optimizer[:self.kept], optimizer[self.kept:]
        self.trained.keep(flat, kept)
        moments = torch.frombuffer(rest[:8 * self.count], dtype=torch.float32)
        moments[:self.count].copy_(first)
        moments[self.count:].copy_(second)
        rest[8 * self.count:] = updates.to_bytes(8, "little")

    def begin(self):
        flat, first, second, updates = self.live
        self.candidate, self.loaded = (flat.clone(), first.clone(), second.clone(), updates), None

    def accumulate(self, batch, gradient, call):
        self._load()
        self.model.zero_grad(set_to_none=True)
        figures = dict.fromkeys(("tokens", "clipped", "klSum", "entropySum", "lossSum"), 0)
        # Equal lengths side by side waste little padding; the sort is stable, so the order is fixed by the samples alone.
        samples = sorted(batch.samples, key=lambda sample: len(sample.tokens))
        for start in range(0, len(samples), self.options.rows):
            call.check()
            self._backward(samples[start:start + self.options.rows], batch, figures)
        self.trained.gradient(self.candidate[0], torch.frombuffer(gradient, dtype=torch.float32))
        return figures

    def stage(self, gradient, options):
        sums = torch.frombuffer(gradient, dtype=torch.float32).clone()
        norm = float(sums.double().square().sum().sqrt())
        if not norm < float("inf"):
            return None
        flat, first, second, updates = self.candidate
        if options["clipNorm"] > 0 and norm > options["clipNorm"]:
            sums.mul_(options["clipNorm"] / norm)
        updates += 1
        beta1, beta2 = options["beta1"], options["beta2"]
        first.mul_(beta1).add_(sums, alpha=1 - beta1)
        second.mul_(beta2).addcmul_(sums, sums, value=1 - beta2)
        width = (second / (1 - beta2**updates)).sqrt_().add_(options["epsilon"])
        flat.mul_(1 - options["lr"] * options["weightDecay"])
        flat.addcdiv_(first, width, value=-options["lr"] / (1 - beta1**updates))
        self.candidate, self.loaded = (flat, first, second, updates), None
        return norm

    def promote(self):
        self.live, self.candidate = self.candidate, None

    def discard(self):
        self.candidate, self.loaded = None, None

    def _backward(self, samples, batch, figures):
        device, length = self.options.device, max(len(sample.tokens) for sample in samples)
        tokens = torch.zeros(len(samples), length, dtype=torch.long)
        old, advantages, mask = (torch.zeros(len(samples), length - 1) for _ in range(3))
        for row, sample in enumerate(samples):
            tokens[row, :len(sample.tokens)] = torch.tensor(sample.tokens.tolist())
            # Position i predicts token i + 1.
            span = slice(sample.prompt_length - 1, len(sample.tokens) - 1)
            old[row, span] = torch.tensor(sample.logprobs.tolist())
            mask[row, span] = torch.tensor(sample.mask.tolist(), dtype=torch.float32)
            advantages[row] = sample.advantage
        tokens, old, advantages, mask = (each.to(device) for each in (tokens, old, advantages, mask))
        logprobs, entropy = self._logprobs(self.model, tokens, batch.temperature)
        change = (logprobs - old) * mask
        ratio = change.exp()
        bounded = ratio.clamp(1 - batch.clip_low, 1 + batch.clip_high)
        surrogate = torch.minimum(ratio * advantages, bounded * advantages) * mask
        loss = -surrogate.sum()
        if self.reference is not None:
            with torch.no_grad():
                wanted, _ = self._logprobs(self.reference, tokens, batch.temperature)
            apart = (wanted - logprobs) * mask
            loss = loss + self.options.kl * (apart.exp() - 1 - apart).sum()
        (loss / batch.normalizer).backward()
        with torch.no_grad():
            clipped = (ratio * advantages > bounded * advantages) & (mask > 0)
            figures["tokens"] += int(mask.sum())
            figures["clipped"] += int(clipped.sum())
            figures["klSum"] += float((ratio - 1 - change).double().sum())
            figures["entropySum"] += float((entropy * mask).double().sum())
            figures["lossSum"] -= float(surrogate.double().sum())

    def _logprobs(self, model, tokens, temperature):
        logits = model(tokens)
        logits = getattr(logits, "logits", logits)[:, :-1].float() / temperature
        logs = torch.log_softmax(logits, dim=-1)
        chosen = logs.gather(-1, tokens[:, 1:, None]).squeeze(-1)
        with torch.no_grad():
            entropy = -(logs.exp() * logs).sum(-1)
        return chosen, entropy

    def _load(self):
        flat = self.candidate[0]
        if self.loaded is flat:
            return
        with torch.no_grad():
            for values, (_, parameter) in zip(self._named(self.trained.weights(flat)).values(), self.parameters):
                parameter.copy_(values)
        self.loaded = flat

    def _named(self, flat):
        named, at = {}, 0
        for name, parameter in self.parameters:
            named[name] = flat[at:at + parameter.numel()].view(parameter.shape)
            at += parameter.numel()
        return named

    def _build(self):
        capability = getattr(torch.backends.cpu, "get_cpu_capability", lambda: "unknown")() if hasattr(torch.backends, "cpu") else "unknown"
        device = torch.cuda.get_device_name() if self.options.device.startswith("cuda") else capability
        parts = [torch.__version__, torch.__config__.show(), device, self.implementation, repr(sorted((name, sorted(value) if isinstance(value, frozenset) else value) for name, value in vars(self.options).items()))]
        folder = os.path.dirname(__file__)
        for name in sorted(os.listdir(folder)):
            if name.endswith(".py"):
                with open(os.path.join(folder, name), encoding="utf-8") as file:
                    parts.append(file.read())
        digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
        return f"torch-{torch.__version__}-{self.implementation}-{digest[:16]}"[:128]


def _fill(named, folder):
    """Copies the tensors of a folder into those of a model. Raises Invalid for one that is missing or of another shape."""
    missing = set(named)
    with torch.no_grad():
        for name, values in read_tensors(folder):
            if name not in named:
                continue
            if named[name].shape != values.shape:
                raise Invalid(f"{folder}: {name} is {list(values.shape)}, and the model has {list(named[name].shape)}")
            named[name].copy_(values)
            missing.discard(name)
    if missing:
        raise Invalid(f"{folder} has no tensor {sorted(missing)[0]}")


def _model_of(config, options):
    wanted = options.implementation
    if wanted == "auto":
        wanted = "plain" if config.get("model_type") in MODEL_TYPES else "transformers"
    if wanted == "plain":
        return PlainModel(config), "plain"
    try:
        import transformers
    except ImportError as error:
        raise Invalid(f"the model type {config.get('model_type')!r} needs the package transformers: {error}") from error
    made = transformers.AutoModelForCausalLM.from_config(
        transformers.AutoConfig.from_pretrained(options.model, local_files_only=True), attn_implementation="eager"
    )
    return made, f"transformers-{transformers.__version__}"


def _options():
    parser = argparse.ArgumentParser(prog="muster_worker.torch_grpo", description=__doc__.split("\n")[0])
    parser.add_argument("--model", required=True, help="folder in Hugging Face layout; its config.json says what is trained")
    parser.add_argument("--implementation", default="auto", choices=["auto", "plain", "transformers"],
                        help="auto: plain for llama and qwen2, else transformers")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"], help="what the model computes in")
    parser.add_argument("--rows", type=int, default=32, help="sequences of a pass; equal on all replicas, it decides where sums meet")
    parser.add_argument("--threads", type=int, default=1, help="threads of the CPU; more than one may change bits")
    parser.add_argument("--reference", help="folder of a model that the trained one should stay near to")
    parser.add_argument("--kl", type=float, default=0.0, help="weight of the distance to the reference, estimated by exp(d) - 1 - d")
    parser.add_argument("--lora-rank", type=int, default=0, help="rank of the adapters that are trained beside frozen weights; 0: all weights are trained")
    parser.add_argument("--lora-alpha", type=float, help="adapters count alpha / rank; twice the rank unless given")
    parser.add_argument("--lora-targets", default="q_proj,v_proj", type=lambda text: frozenset(filter(None, text.split(","))),
                        help="names of the matrices that have adapters, separated by commas (default: %(default)s)")
    options = parser.parse_args()
    if options.kl < 0 or (options.kl > 0) != bool(options.reference):
        parser.error("--kl above 0 and --reference belong together")
    if options.rows < 1 or options.threads < 1:
        parser.error("--rows and --threads are at least 1")
    if options.lora_rank < 0 or not options.lora_targets:
        parser.error("--lora-rank is at least 0, and --lora-targets names a matrix")
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


def main():
    options = _options()
    torch.use_deterministic_algorithms(True)
    torch.set_num_threads(options.threads)
    torch.manual_seed(0)
    try:
        worker = TorchGrpo(options)
    except Invalid as error:
        worker = _Refused(error)
    serve(worker)


if __name__ == "__main__":
    sys.exit(main())
