"""Reads models in Hugging Face layout: config.json, and safetensors in one file or several. Needs torch alone."""

import contextlib
import json
import mmap
import os
import struct

import torch

from .service import Invalid

_DTYPES = {"F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16}


def read_config(folder: str) -> dict:
    """The config.json of a folder. Raises Invalid when there is none."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            config = json.load(file)
    except (OSError, ValueError) as error:
        raise Invalid(f"{folder} is no model in Hugging Face layout: {error}") from error
    if not isinstance(config, dict):
        raise Invalid(f"{folder}/config.json is no JSON object")
    return config


def read_tensors(folder: str):
    """Yields (name, tensor) of all safetensors of a folder, each file once and one tensor in memory at a time."""
    for path in _files(folder):
        with _reading(path) as (header, body):
            for name, entry in header.items():
                start, end = entry["data_offsets"]
                values = torch.frombuffer(bytearray(body[start:end]), dtype=_DTYPES[entry["dtype"]])
                yield name, values.reshape(entry["shape"])


def tensor_names(folder: str) -> set:
    """The names in the safetensors of a folder; their values are not read."""
    names = set()
    for path in _files(folder):
        with _reading(path) as (header, _):
            names.update(header)
    return names


def _files(folder):
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        try:
            with open(index, encoding="utf-8") as file:
                names = sorted(set(json.load(file)["weight_map"].values()))
        except (OSError, ValueError, KeyError, AttributeError, TypeError) as error:
            raise Invalid(f"{index} can not be read: {type(error).__name__}: {error}") from error
    for name in names:
        if os.path.basename(name) != name:
            raise Invalid(f"{index} names a file of another folder: {name}")
    return [os.path.join(folder, name) for name in names]


@contextlib.contextmanager
def _reading(path):
    """The header of a safetensors file without its metadata, and its bytes, mapped."""
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data, memoryview(data) as view:
            (length,) = struct.unpack_from("<Q", view)
            header = json.loads(bytes(view[8:8 + length]))
            header.pop("__metadata__", None)
            with view[8 + length:] as body:
                yield header, body
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError, struct.error) as error:
        raise Invalid(f"{path} can not be read: {type(error).__name__}: {error}") from error
