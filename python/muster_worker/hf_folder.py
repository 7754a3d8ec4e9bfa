"""Reads models in Hugging Face layout: config.json, and safetensors in one file or several. Needs torch alone."""

import json
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
    """Yields (name, tensor) of all safetensors of a folder, each file once."""
    index = os.path.join(folder, "model.safetensors.index.json")
    names = ["model.safetensors"]
    if os.path.exists(index):
        with open(index, encoding="utf-8") as file:
            names = sorted(set(json.load(file)["weight_map"].values()))
    for name in names:
        if os.path.basename(name) != name:
            raise Invalid(f"{index} names a file of another folder: {name}")
        yield from _read_file(os.path.join(folder, name))


def _read_file(path: str):
    try:
        with open(path, "rb") as file:
            data = file.read()
        (length,) = struct.unpack_from("<Q", data)
        header = json.loads(data[8:8 + length])
        body = memoryview(data)[8 + length:]
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            start, end = entry["data_offsets"]
            values = torch.frombuffer(bytearray(body[start:end]), dtype=_DTYPES[entry["dtype"]])
            yield name, values.reshape(entry["shape"])
    except (OSError, ValueError, KeyError, RuntimeError, struct.error) as error:
        raise Invalid(f"{path} can not be read: {type(error).__name__}: {error}") from error
