"""Tensors as bytes with a type and a shape, and many small ones in one buffer."""
import math

ALIGNMENT = 64
_SIZES = {
    "float64": 8, "int64": 8, "uint64": 8, "float32": 4, "int32": 4, "uint32": 4, "float16": 2, "bfloat16": 2,
    "int16": 2, "uint16": 2, "int8": 1, "uint8": 1, "bool": 1, "float8_e4m3fn": 1, "float8_e5m2": 1,
}


class Tensor:
    """Bytes of a tensor in row order. `dtype` is a name such as `bfloat16`, with or without `torch.` before it."""

    __slots__ = ("dtype", "shape", "data")

    def __init__(self, dtype, shape, data):
        self.dtype = dtype[6:] if dtype.startswith("torch.") else dtype
        self.shape = tuple(shape)
        self.data = memoryview(data).cast("B")
        if self.dtype not in _SIZES:
            raise ValueError(f"dtype: {dtype} is unknown; use one of {', '.join(_SIZES)}")
        expected = math.prod(self.shape) * _SIZES[self.dtype]
        if self.data.nbytes != expected:
            raise ValueError(f"data: {self.data.nbytes} bytes, and {self.dtype} {self.shape} has {expected}")

    def __eq__(self, other):
        if not isinstance(other, Tensor):
            return NotImplemented
        return (self.dtype, self.shape, self.data) == (other.dtype, other.shape, other.data)

    __hash__ = None


class TensorFusion:
    """Puts many tensors into one buffer: bytes of one type stand together, each tensor is aligned, nothing is converted."""

    def __init__(self, threshold=1024 * 1024):
        self.threshold = threshold

    def should_fuse(self, tensor_dict):
        """True when there are at least two tensors and as many bytes as the threshold."""
        return len(tensor_dict) > 1 and sum(t.data.nbytes for t in tensor_dict.values()) >= self.threshold

    def fuse(self, tensor_dict):
        """Returns the buffer and, per tensor in the order of the dict, its name, dtype, shape, numel and offset in bytes."""
        order = {}
        for name, tensor in tensor_dict.items():
            order.setdefault(tensor.dtype, []).append(name)
        offsets, end = {}, 0
        for names in order.values():
            for name in names:
                offsets[name] = end
                end += -(-tensor_dict[name].data.nbytes // ALIGNMENT) * ALIGNMENT
        buffer = bytearray(end)
        for name, tensor in tensor_dict.items():
            buffer[offsets[name]:offsets[name] + tensor.data.nbytes] = tensor.data
        return buffer, [
            {"name": n, "dtype": t.dtype, "shape": list(t.shape), "numel": math.prod(t.shape), "offset": offsets[n]}
            for n, t in tensor_dict.items()
        ]

    def unfuse(self, fused_buffer, metadata):
        """The tensors again, as views of the buffer. Raises ValueError when one would lie outside of it."""
        view, tensors = memoryview(fused_buffer).cast("B"), {}
        check_rows(metadata, view.nbytes)
        for row in metadata:
            end = row["offset"] + math.prod(row["shape"]) * _SIZES[row["dtype"]]
            tensors[row["name"]] = Tensor(row["dtype"], row["shape"], view[row["offset"]:end])
        return tensors

    def buffers(self, tensor_dict):
        """All tensors as buffers with their rows: one when they are fused, otherwise one for each."""
        if self.should_fuse(tensor_dict):
            return [self.fuse(tensor_dict)]
        return [self.fuse({name: tensor}) for name, tensor in tensor_dict.items()]


def check_rows(rows, size):
    """Raises ValueError for a row that describes no tensor inside of a buffer of `size` bytes, or a name that is there twice."""
    names = set()
    for row in rows:
        name, shape, offset = (row.get(field) for field in ("name", "shape", "offset")) if isinstance(row, dict) else (None,) * 3
        if not isinstance(name, str) or not isinstance(shape, list) or any(type(n) is not int or n < 0 for n in (*shape, offset)):
            raise ValueError(f"shape, offset: {name} has other ones than whole numbers")
        if not isinstance(row.get("dtype"), str) or row["dtype"] not in _SIZES:
            raise ValueError(f"dtype: {row.get('dtype')} of {name} is unknown; use one of {', '.join(_SIZES)}")
        if offset + math.prod(shape) * _SIZES[row["dtype"]] > size or name in names:
            raise ValueError(f"offset: {name} does not lie in the buffer, or is there twice")
        names.add(name)
