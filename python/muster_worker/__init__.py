"""Write a trainer or a sampler for Muster: derive from Worker, then call serve(). The protocol needs the standard library alone."""

from .engines import Batch, Figures, Request, Response, Sample, Worker, floats, table_of
from .service import Call, Cancelled, Invalid, serve

__all__ = [
    "Batch", "Call", "Cancelled", "Figures", "Invalid", "Request", "Response", "Sample", "Worker", "floats", "serve",
    "table_of",
]
