"""Write a trainer, a sampler or a reward for Muster: derive from Worker or RewardWorker, then call serve(). The protocol needs the standard library alone."""

from .engines import Batch, Figures, Request, Response, Sample, Worker, floats, table_of
from .scorers import RewardWorker, Trajectory
from .service import Call, Cancelled, Invalid, serve

__all__ = [
    "Batch", "Call", "Cancelled", "Figures", "Invalid", "Request", "Response", "RewardWorker", "Sample", "Trajectory",
    "Worker", "floats", "serve", "table_of",
]
