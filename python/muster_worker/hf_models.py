"""Opens causal language models in Hugging Face layout: computed by this package, or by `transformers`."""

from typing import NamedTuple

import torch

from .hf_folder import read_config, read_tensors, tensor_names
from .plain_model import MODEL_TYPES, PlainModel
from .service import Invalid


class Sizes(NamedTuple):
    """Of a model, by the names that most configurations have."""

    vocab_size: int
    max_position_embeddings: int
    num_hidden_layers: int
    hidden_size: int


class Opened(NamedTuple):
    """A model whose weights are not read yet, what computes it, its config.json, and its sizes."""

    model: torch.nn.Module
    implementation: str
    config: dict
    sizes: Sizes


def open_model(folder, options) -> Opened:
    """The model of a folder, on the device of the options and in their dtype. Raises Invalid for one that can not be computed."""
    config = read_config(folder)
    wanted = options.implementation
    if wanted == "auto":
        wanted = "plain" if config.get("model_type") in MODEL_TYPES else "transformers"
    if wanted == "plain":
        opened = Opened(PlainModel(config), wanted, config, Sizes(*(config[field] for field in Sizes._fields)))
    else:
        opened = _by_transformers(folder, config)
    dtype = getattr(torch, options.dtype)
    # Parameters alone: what a model computes for itself, as the angles of its positions, needs the precision that it chose.
    for parameter in opened.model.parameters():
        parameter.data = parameter.data.to(dtype)
    opened.model.to(device=options.device).eval()
    return opened


def fill(named, folder):
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


def _by_transformers(folder, config):
    try:
        import transformers
    except ImportError as error:
        raise Invalid(f"the model type {config.get('model_type')!r} needs the package transformers: {error}") from error
    try:
        read = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
        model = transformers.AutoModelForCausalLM.from_config(read, attn_implementation="eager")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Invalid(f"{folder}: transformers {transformers.__version__} does not open it: {error}") from error
    text = read.get_text_config()
    sizes = [getattr(text, field, None) for field in Sizes._fields]
    for field, size in zip(Sizes._fields, sizes):
        if not isinstance(size, int) or size < 1:
            raise Invalid(f"{folder}/config.json: {field} is {size!r}; it must be a whole number of at least 1")
    # Samplers get the tensors by the names of the model's parameters, so these are those of its files.
    others = sorted({name for name, _ in model.named_parameters()} - tensor_names(folder))
    if others:
        raise Invalid(
            f"{folder} has no tensor {others[0]}, which transformers {transformers.__version__} makes of others while it loads, "
            "as it does with experts; such a model is not trained yet"
        )
    return Opened(model, f"transformers-{transformers.__version__}", config, Sizes(*sizes))
