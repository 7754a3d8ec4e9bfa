"""Models that transformers computes, opened as a trainer opens them: small ones of random weights, and the Llama of a folder beside the plain one."""

import argparse
import json
import sys

import torch
import transformers

from muster_worker.hf_models import fill, open_model
from muster_worker.service import Invalid

dates, scratch = sys.argv[1], sys.argv[2]
transformers.logging.set_verbosity_error()
torch.manual_seed(3)
tokens = torch.tensor([[5, 9, 12, 3, 7, 0], [8, 1, 30, 2, 2, 2]])


def opened(folder, implementation, dtype):
    model = open_model(folder, argparse.Namespace(implementation=implementation, dtype=dtype, device="cpu"))
    fill(dict(model.model.named_parameters()), folder)
    return model


def logits(model):
    with torch.no_grad():
        said = model.model(tokens)
    return getattr(said, "logits", said).float()


def apart(one, other):
    return float((one - other).norm() / other.norm())


def saved(name, config):
    folder = f"{scratch}/{name}"
    model = transformers.AutoModelForCausalLM.from_config(config).eval()
    model.save_pretrained(folder)
    return folder, logits(argparse.Namespace(model=model))


small = {"vocab_size": 43, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
plain, theirs = (opened(dates, implementation, "float32") for implementation in ("plain", "transformers"))
half = opened(dates, "transformers", "bfloat16")
found = {"plain": apart(logits(plain), logits(theirs)), "bfloat16": apart(logits(half), logits(theirs))}
found["dtypes"] = sorted({str(values.dtype) for values in (*half.model.parameters(), *half.model.buffers())})
for name, config in (
    ("gpt2", transformers.GPT2Config(vocab_size=43, n_embd=32, n_layer=2, n_head=4, n_positions=128)),
    ("qwen3", transformers.Qwen3Config(**small, head_dim=8, max_position_embeddings=128)),
):
    folder, expected = saved(name, config)
    model = opened(folder, "auto", "float32")
    found[name] = {"sizes": model.sizes, "apart": apart(logits(model), expected)}
folder, _ = saved("mixtral", transformers.MixtralConfig(**small, num_local_experts=4))
try:
    opened(folder, "auto", "float32")
except Invalid as error:
    found["experts"] = str(error)
print(json.dumps(found))
