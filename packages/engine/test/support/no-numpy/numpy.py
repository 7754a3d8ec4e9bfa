"""Stands in the way of the real one: the trainer needs torch alone."""

raise ModuleNotFoundError("No module named 'numpy'", name="numpy")
