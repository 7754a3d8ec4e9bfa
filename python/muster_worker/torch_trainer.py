"""The trainer of torch_grpo in one process, and what each of several has of it."""

import hashlib
import os

# Before torch is imported: without it cuBLAS may add up in another order each time.
os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")

import torch  # noqa: E402

from .engines import Worker, table_of  # noqa: E402
from .fingerprint import numeric_fingerprint  # noqa: E402
from .hf_models import fill, open_model  # noqa: E402
from .locked_pages import LockedPages  # noqa: E402
from .losses import NAMES, Rows, add_figures, no_figures, values_of  # noqa: E402
from .rows import columns_of, entropy_of, parts_of, predicted, span_of, tokens_of  # noqa: E402
from .service import Invalid  # noqa: E402
from .trained import Adapters, AllWeights  # noqa: E402


class TorchGrpo(Worker):
    """
    Live state and candidate are what is trained, flat float32, with its moments, where --state-device says: 12 bytes for each weight, twice. The model
    computes with the weights that follow from one of them.
    """

    loss_scale = 1

    def __init__(self, options):
        self.options = options
        self.place, self.pages = options.state_device, LockedPages(options.state_device)
        self.model, self.implementation, self.config, self.sizes = open_model(options.model, options)
        self.parameters = list(self.model.named_parameters())
        self.trained = AllWeights(self.parameters)
        self.size = self.trained.count
        if options.lora_rank > 0:
            base = torch.empty(self.size, device=self.place)
            fill(self._named(base), options.model)
            self.trained = Adapters(self.parameters, base, options.lora_rank, options.lora_alpha, options.lora_targets)
        self.count, self.kept = self.trained.count, self.trained.kept_bytes
        self.reference = None
        self.live = self.candidate = self.loaded = None

    def describe(self, facts):
        sizes = self.sizes
        for field, has in (("vocab", sizes.vocab_size), ("maxContext", sizes.max_position_embeddings)):
            if has < facts[field]:
                raise Invalid(f"the model has {field} {has}, and the task needs {facts[field]}")
        kind = self.config["model_type"]
        return {
            "roles": ["policy"], "build": self._build(), "vocab": sizes.vocab_size, "maxContext": sizes.max_position_embeddings,
            "modelId": f"{kind}-l{sizes.num_hidden_layers}-d{sizes.hidden_size}-v{sizes.vocab_size}",
            "tensors": table_of([(name, "f32", parameter.shape) for name, parameter in self.parameters]),
            "gradientElements": self.count, "optimizerBytes": self.kept + 8 * self.count + 8, "deterministic": True, "losses": NAMES,
            "fingerprint": self._fingerprint(), "modelConfig": self.config,
            "processes": ["policy"] if has_fsdp() and self.options.lora_rank == 0 else [],
        }

    def initialize(self, source):
        random = torch.Generator().manual_seed(source.get("seed", 0))
        weights = None
        if source["kind"] == "folder":
            weights = torch.empty(self.size, device=self.place)
            fill(self._named(weights), source["path"])
        flat = self._own(self.trained.begin(weights, random)).to(self.place)
        zeros = torch.zeros(flat.numel(), device=self.place)
        self.live, self.candidate, self.loaded = (flat, zeros, zeros.clone(), 0), None, None

    def restore(self, weights, optimizer):
        kept, first, second, updates = self._parts(optimizer)
        flat = self.trained.take(self.pages.floats(weights).to(self.place, copy=True), kept.to(self.place, copy=True))
        self.live = (flat, first.to(self.place, copy=True), second.to(self.place, copy=True), int.from_bytes(updates, "little"))
        self.candidate, self.loaded = None, None

    def write(self, which, weights, optimizer):
        flat, first, second, updates = getattr(self, which)
        self.pages.floats(weights).copy_(self.trained.weights(flat))
        kept, *moments, count = self._parts(optimizer)
        self.trained.keep(flat, kept)
        for place, values in zip(moments, (first, second)):
            place.copy_(values)
        count[:] = updates.to_bytes(8, "little")

    def begin(self):
        flat, first, second, updates = self.live
        self.candidate, self.loaded = (flat.clone(), first.clone(), second.clone(), updates), None

    def accumulate(self, batch, gradient, call):
        if batch.loss.kl_coefficient > 0 and self.reference is None:
            raise Invalid("the loss has a divergence, and no reference policy is open")
        parts, counted = self._passes(batch.samples)
        before = self._before(parts, batch, call)
        self._load(self.candidate[0])
        self.model.zero_grad(set_to_none=True)
        figures = no_figures(batch.loss)
        for number, (part, earlier) in enumerate(zip(parts, before)):
            self._check(call)
            self._backward(part, earlier, batch, figures if number < counted else None)
        self._give(gradient)
        return self._totals(figures)

    def open_reference(self, source):
        folder = source["path"] if source["kind"] == "folder" else None
        reference, _, _, sizes = open_model(folder or self.options.model, self.options)
        for field in ("vocab_size", "max_position_embeddings"):
            has, needed = getattr(sizes, field), getattr(self.sizes, field)
            if has < needed:
                raise Invalid(f"the reference policy {folder} has {field} {has}, and the model has {needed}")
        reference.requires_grad_(False)
        named = dict(reference.named_parameters())
        if folder:
            fill(named, folder)
        else:
            flat = self.trained.begin(None, torch.Generator().manual_seed(source["seed"])).to(self.place)
            for name, values in self._named(self.trained.weights(flat)).items():
                named[name].copy_(values)
        self.reference = reference

    def logprobs_batch(self, sequences, temperature, call):
        if self.reference is None:
            raise Invalid("no reference policy is open")
        found = {}
        for part in parts_of(sequences, self.options.rows):
            call.check()
            with torch.no_grad():
                logprobs, _ = predicted(self.reference, tokens_of(part, self.options.device), temperature)
            found.update((id(sequence), logprobs[row, span_of(sequence)].tolist()) for row, sequence in enumerate(part))
        return [found[id(sequence)] for sequence in sequences]

    def stage(self, gradient, options):
        sums, norm = self._sums(gradient)
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

    def _own(self, flat):
        """What this process has of what is trained: of one process all."""
        return flat

    def _passes(self, samples):
        """The passes of this process, and how many of them count."""
        parts = parts_of(samples, self.options.rows)
        return parts, len(parts)

    def _check(self, call):
        call.check()

    def _give(self, gradient):
        self.trained.gradient(self.candidate[0], self.pages.floats(gradient))

    def _totals(self, figures):
        return figures

    def _sums(self, gradient):
        """This process's part of the summed gradient, to be written over, and the norm of all of it."""
        sums = self.pages.floats(gradient).to(self.place, copy=True)
        return sums, norm_of(sums)

    def _parts(self, optimizer):
        """What the weights do not say, both moments, and the number of updates, in the region of the optimizer."""
        values = self.pages.floats(optimizer)
        kept, first = self.kept // 4, self.kept // 4 + self.count
        return values[:kept], values[kept:first], values[first:first + self.count], optimizer[-8:]

    def _before(self, parts, batch, call):
        """Log-probabilities under the weights that the step began with, part by part; None where the loss does not look at them, or they are the candidate's."""
        if batch.loss.stale_correction == "off" or self.candidate[3] == self.live[3]:
            return [None] * len(parts)
        self._load(self.live[0])
        found = []
        for part in parts:
            self._check(call)
            with torch.no_grad():
                found.append(predicted(self.model, tokens_of(part, self.options.device), batch.temperature)[0])
        return found

    def _backward(self, samples, before, batch, figures):
        """Adds the gradient of a pass; one without figures does not count, and is there because other processes have one more."""
        tokens, columns = tokens_of(samples, self.options.device), columns_of(samples, self.options.device)
        logprobs, logs = predicted(self.model, tokens, batch.temperature)
        with torch.set_grad_enabled(batch.loss.entropy_coefficient > 0):
            entropy = entropy_of(logs)
        reference = None
        if batch.loss.kl_coefficient > 0:
            with torch.no_grad():
                reference, _ = predicted(self.reference, tokens, batch.temperature)
        if batch.loss.stale_correction != "off" and before is None:
            before = logprobs.detach()
        weights = columns.pop("weights")
        rows = Rows(logprobs=logprobs, before=before, reference=reference, entropy=entropy, **columns)
        values, clipped = values_of(rows, batch.loss, batch.clip_low, batch.clip_high)
        loss = (values * weights).sum() / batch.normalizer
        (loss * (0 if figures is None else self.loss_scale)).backward()
        if figures is not None:
            add_figures(figures, rows, values, clipped)

    def _load(self, flat):
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

    def _fingerprint(self):
        """What the machine computes, and the options that decide in which order or where: trainers that differ in one of them have other bits."""
        numbers, options = numeric_fingerprint(self.options.device, getattr(torch, self.options.dtype)), self.options
        targets = sorted(options.lora_targets) if options.lora_rank > 0 else []
        said = (numbers, self.implementation, self.place.split(":")[0], options.rows, options.threads, options.lora_rank, options.lora_alpha, targets)
        return hashlib.sha256(repr(said).encode()).hexdigest()[:16]

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


def norm_of(values):
    """Piece by piece: twice as wide, all of it may have no room beside the state."""
    return float(torch.stack([part.double().square().sum() for part in values.split(1 << 24)]).sum().sqrt())


def has_fsdp():
    """Whether this torch has what trainers of several processes need: 2.6 or newer."""
    # An older one is not asked: of some versions of Python and torch the import alone raises what no import should.
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        return False
    try:
        from torch.distributed.fsdp import fully_shard  # noqa: F401
    except ImportError:
        return False
    return torch.distributed.is_available()
