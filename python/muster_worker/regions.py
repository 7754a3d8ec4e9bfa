"""Regions: memory that is shared with Muster, and arrays in it."""

import mmap

# Element types of arrays: format of a memoryview, and bytes of an element.
FORMATS = {"i32": ("i", 4), "f32": ("f", 4), "f64": ("d", 8), "u8": ("B", 1)}
_ALIGNMENT = 8


class Regions:
    """Regions by name, as memoryviews of bytes."""

    def __init__(self, places):
        self._views = {place["name"]: _mapped(place["path"], place["bytes"]) for place in places}

    def __getitem__(self, name: str) -> memoryview:
        return self._views[name]

    def array(self, region: str, place: dict) -> memoryview:
        """A view of an array where a message says that it lies."""
        return array_in(self._views[region], place)

    def write_arrays(self, region: str, arrays: dict) -> dict:
        """Writes {name: (dtype, values)} one behind the other. Returns where each lies. Raises ValueError when there is no room."""
        view, places, end = self._views[region], {}, 0
        for name, (dtype, values) in arrays.items():
            form, size = FORMATS[dtype]
            stop = end + len(values) * size
            if stop > len(view):
                raise ValueError(f"the answer needs more than the {len(view)} bytes of the region {region}; raise arena_mb")
            into = view[end:stop].cast(form)
            into[:] = values if isinstance(values, memoryview) else _packed(form, values)
            places[name] = {"dtype": dtype, "offsetBytes": end, "length": len(values)}
            end = -(-stop // _ALIGNMENT) * _ALIGNMENT
        return places


def array_in(view: memoryview, place: dict) -> memoryview:
    """A view of an array in bytes."""
    form, size = FORMATS[place["dtype"]]
    start = place["offsetBytes"]
    return view[start:start + place["length"] * size].cast(form)


def _packed(form, values):
    import array

    return memoryview(array.array(form, values)).cast("B").cast(form)


def _mapped(path: str, count: int) -> memoryview:
    if count == 0:
        return memoryview(bytearray())
    with open(path, "r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), count))
