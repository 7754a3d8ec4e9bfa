"""Client of the checkpoint service: registration, heartbeats, and weights from process to process. Standard library only."""
from .backend import CommHandle, PeerGone, RecvRequest, SendRequest, TcpBackend
from .client import CheckpointEngineClient, UpdateResult, Weights, create_client
from .coordinator import Coordinator, CoordinatorError
from .device_direct import BackendType, DeviceDirectBackend
from .fusion import Tensor, TensorFusion
from .metrics import Counter, Gauge, Histogram, MetricsCollector, get_metrics

__all__ = [
    "BackendType",
    "CheckpointEngineClient",
    "CommHandle",
    "Coordinator",
    "CoordinatorError",
    "Counter",
    "DeviceDirectBackend",
    "Gauge",
    "Histogram",
    "MetricsCollector",
    "PeerGone",
    "RecvRequest",
    "SendRequest",
    "TcpBackend",
    "Tensor",
    "TensorFusion",
    "UpdateResult",
    "Weights",
    "create_client",
    "get_metrics",
]
