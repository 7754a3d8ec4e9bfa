"""Write a trainer, a sampler, a reward or a reference for Muster: derive from Worker, RewardWorker or ReferenceWorker, then call serve(). The protocol needs the standard library alone."""

from .engines import Batch, Figures, Loss, Request, Response, Sample, Worker, floats, table_of
from .scorers import ReferenceWorker, RewardWorker, Score, Sequence, Trajectory
from .service import Call, Cancelled, Invalid, serve

__all__ = [
    "Batch", "Call", "Cancelled", "Figures", "Invalid", "Loss", "ReferenceWorker", "Request", "Response", "RewardWorker", "Sample",
    "Score", "Sequence", "Trajectory", "Worker", "floats", "serve", "table_of",
]
