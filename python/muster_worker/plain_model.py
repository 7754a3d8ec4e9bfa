"""Llama and Qwen2 in torch alone, with the names of Hugging Face, for machines without transformers."""

import torch
from torch import nn
from torch.nn import functional

from .service import Invalid

MODEL_TYPES = ("llama", "qwen2")


class PlainModel(nn.Module):
    """Tokens [rows, length] to logits [rows, length, vocab]. Raises Invalid for a config that it can not compute."""

    def __init__(self, config: dict):
        super().__init__()
        check(config)
        self.model = _Decoder(config)
        self.lm_head = None
        if not config.get("tie_word_embeddings", False):
            self.lm_head = nn.Linear(config["hidden_size"], config["vocab_size"], bias=False)

    def forward(self, tokens):
        hidden = self.model(tokens)
        return self.lm_head(hidden) if self.lm_head else functional.linear(hidden, self.model.embed_tokens.weight)


def check(config: dict) -> None:
    """Raises Invalid naming the first field that is not understood."""
    scaling_field = "rope_scaling" if config.get("rope_scaling") else "rope_parameters"  # the name since transformers 5
    scaling = config.get(scaling_field)
    for field, holds, rule in (
        ("model_type", config.get("model_type") in MODEL_TYPES, f"one of {', '.join(MODEL_TYPES)}, or transformers installed"),
        ("hidden_act", config.get("hidden_act", "silu") == "silu", "silu"),
        (scaling_field, scaling is None or scaling.get("rope_type", "default") == "default", "of rope_type default, or absent"),
        ("use_sliding_window", not config.get("use_sliding_window", False), "false"),
        ("mlp_bias", not config.get("mlp_bias", False), "false"),
    ):
        if not holds:
            raise Invalid(f"config.json: {field} is {config.get(field)!r}; it must be {rule}")
    for field in ("vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size",
                  "max_position_embeddings"):
        if not isinstance(config.get(field), int) or config[field] < 1:
            raise Invalid(f"config.json: {field} is {config.get(field)!r}; it must be a whole number of at least 1")


class _Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config["vocab_size"], config["hidden_size"])
        self.layers = nn.ModuleList([_Block(config) for _ in range(config["num_hidden_layers"])])
        self.norm = _Norm(config)
        self.head_size = config.get("head_dim") or config["hidden_size"] // config["num_attention_heads"]
        rope = config.get("rope_parameters") or config
        self.theta = float(rope.get("rope_theta", 10000.0))

    def forward(self, tokens):
        length, half = tokens.shape[1], self.head_size // 2
        device = tokens.device
        frequencies = 1.0 / self.theta ** (torch.arange(half, device=device, dtype=torch.float32) / half)
        angles = torch.arange(length, device=device, dtype=torch.float32)[:, None] * frequencies[None, :]
        rotation = torch.cat([angles, angles], dim=-1)
        hidden = self.embed_tokens(tokens)
        cosine, sine = rotation.cos().to(hidden.dtype), rotation.sin().to(hidden.dtype)
        mask = torch.full((length, length), float("-inf"), device=device, dtype=hidden.dtype).triu(1)
        for layer in self.layers:
            hidden = layer(hidden, cosine, sine, mask)
        return self.norm(hidden)


class _Block(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.self_attn = _Attention(config)
        self.mlp = _Gated(config)
        self.input_layernorm = _Norm(config)
        self.post_attention_layernorm = _Norm(config)

    def forward(self, hidden, cosine, sine, mask):
        hidden = hidden + self.self_attn(self.input_layernorm(hidden), cosine, sine, mask)
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class _Norm(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(config["hidden_size"]))
        self.epsilon = float(config.get("rms_norm_eps", 1e-6))

    def forward(self, hidden):
        wide = hidden.float()
        scaled = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return self.weight * scaled.to(hidden.dtype)


class _Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.heads = config["num_attention_heads"]
        self.kv_heads = config.get("num_key_value_heads") or self.heads
        self.size = config.get("head_dim") or config["hidden_size"] // self.heads
        hidden = config["hidden_size"]
        bias = config.get("attention_bias", config["model_type"] == "qwen2")
        self.q_proj = nn.Linear(hidden, self.heads * self.size, bias=bias)
        self.k_proj = nn.Linear(hidden, self.kv_heads * self.size, bias=bias)
        self.v_proj = nn.Linear(hidden, self.kv_heads * self.size, bias=bias)
        self.o_proj = nn.Linear(self.heads * self.size, hidden, bias=config.get("attention_bias", False))

    def forward(self, hidden, cosine, sine, mask):
        rows, length, _ = hidden.shape

        def split(values, heads):
            return values.view(rows, length, heads, self.size).transpose(1, 2)

        query = _rotated(split(self.q_proj(hidden), self.heads), cosine, sine)
        key = _rotated(split(self.k_proj(hidden), self.kv_heads), cosine, sine)
        value = split(self.v_proj(hidden), self.kv_heads)
        if self.kv_heads != self.heads:
            key, value = (each.repeat_interleave(self.heads // self.kv_heads, dim=1) for each in (key, value))
        scores = query @ key.transpose(2, 3) * self.size**-0.5 + mask
        mixed = torch.softmax(scores.float(), dim=-1).to(hidden.dtype) @ value
        return self.o_proj(mixed.transpose(1, 2).reshape(rows, length, -1))


def _rotated(values, cosine, sine):
    first, second = values.chunk(2, dim=-1)
    return values * cosine + torch.cat([-second, first], dim=-1) * sine


class _Gated(nn.Module):
    def __init__(self, config):
        super().__init__()
        hidden, inner = config["hidden_size"], config["intermediate_size"]
        self.gate_proj = nn.Linear(hidden, inner, bias=False)
        self.up_proj = nn.Linear(hidden, inner, bias=False)
        self.down_proj = nn.Linear(inner, hidden, bias=False)

    def forward(self, hidden):
        return self.down_proj(functional.silu(self.gate_proj(hidden)) * self.up_proj(hidden))
