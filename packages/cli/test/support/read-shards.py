"""Reads a sharded model folder with the standard library alone, as any loader does, and says what it found as JSON."""

import hashlib
import json
import os
import struct
import sys

folder = sys.argv[1]
with open(os.path.join(folder, "model.safetensors.index.json"), encoding="utf-8") as file:
    index = json.load(file)
digest = hashlib.sha256()
files = sorted(set(index["weight_map"].values()))
found = {}
for name in files:
    with open(os.path.join(folder, name), "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8:8 + length])
    for tensor, entry in sorted(header.items(), key=lambda item: item[1].get("data_offsets", [0])):
        if tensor == "__metadata__":
            continue
        start, end = entry["data_offsets"]
        digest.update(data[8 + length + start:8 + length + end])
        found[tensor] = name
assert found == index["weight_map"], "the index and the files name the same tensors"
library = None
try:
    from safetensors import safe_open
    library = sum(len(list(safe_open(os.path.join(folder, name), framework="np").keys())) for name in files)
except ImportError:
    pass
total = index["metadata"]["total_size"]
print(json.dumps({"sha256": digest.hexdigest(), "files": len(files), "tensors": len(found), "total_size": total, "library": library}))
