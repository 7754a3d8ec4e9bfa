"""The metrics of the checkpoint service, by the names, labels, units and buckets of its document."""
import threading
import time

DEFAULT_BUCKETS = [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]
_BYTES = {"save": "bytes_saved", "load": "bytes_loaded", "send": "bytes_sent", "recv": "bytes_received"}
_GAUGES = ("memory_buffer_usage_bytes", "active_connections", "pending_operations")


class Histogram:
    """A distribution of latencies, in seconds."""

    def __init__(self, buckets=None):
        self._bounds = list(DEFAULT_BUCKETS if buckets is None else buckets)
        self._counts = [0] * len(self._bounds)
        self._count, self._sum = 0, 0.0
        self._lock = threading.Lock()

    def observe(self, value):
        """Records a sample, in seconds."""
        with self._lock:
            self._count += 1
            self._sum += value
            for i, bound in enumerate(self._bounds):
                if value <= bound:
                    self._counts[i] += 1

    def get_stats(self):
        """Count, sum, average (0 when nothing was seen) and cumulative buckets by upper bound."""
        with self._lock:
            buckets = {f"{bound:g}": count for bound, count in zip(self._bounds, self._counts)}
            buckets["+Inf"] = self._count
            average = self._sum / self._count if self._count else 0.0
            return {"count": self._count, "sum": self._sum, "avg": average, "buckets": buckets}


class Counter:
    """A number that only rises."""

    def __init__(self):
        self._value = 0
        self._lock = threading.Lock()

    def inc(self, value=1):
        if value < 0:
            raise ValueError(f"a counter rises by 0 or more, not by {value}")
        with self._lock:
            self._value += value

    @property
    def value(self):
        return self._value


class Gauge:
    """A number that rises and falls."""

    def __init__(self):
        self._value = 0
        self._lock = threading.Lock()

    def set(self, value):
        with self._lock:
            self._value = value

    def inc(self, value=1):
        with self._lock:
            self._value += value

    def dec(self, value=1):
        self.inc(-value)

    @property
    def value(self):
        return self._value


class MetricsCollector:
    """The metrics of one process. Thread-safe."""

    def __init__(self):
        self._started = time.monotonic()
        self._latency = {op: Histogram() for op in _BYTES}
        self._bytes = {op: Counter() for op in _BYTES}
        self._operations = {op: Counter() for op in _BYTES}
        self._errors = {}
        self._lock = threading.Lock()
        self.memory_buffer_usage_bytes = Gauge()
        self.active_connections = Gauge()
        self.pending_operations = Gauge()

    def _record(self, op, count, duration):
        self._latency[op].observe(duration)
        self._bytes[op].inc(count)
        self._operations[op].inc()

    def record_save(self, bytes_saved, duration):
        self._record("save", bytes_saved, duration)

    def record_load(self, bytes_loaded, duration):
        self._record("load", bytes_loaded, duration)

    def record_send(self, bytes_sent, duration):
        self._record("send", bytes_sent, duration)

    def record_recv(self, bytes_received, duration):
        self._record("recv", bytes_received, duration)

    def record_error(self, error_type):
        """Counts an error by its type; beyond 64 types it is `other`."""
        with self._lock:
            name = error_type if error_type in self._errors or len(self._errors) < 64 else "other"
            self._errors.setdefault(name, Counter()).inc()

    def get_all(self):
        """Everything as a dict."""
        with self._lock:
            errors = {name: counter.value for name, counter in self._errors.items()}
        counters = {name: self._bytes[op].value for op, name in _BYTES.items()}
        counters.update({f"{op}_operations": self._operations[op].value for op in _BYTES})
        counters["errors"] = sum(errors.values())
        return {
            "uptime_seconds": time.monotonic() - self._started,
            "latency": {op: histogram.get_stats() for op, histogram in self._latency.items()},
            "counters": counters,
            "errors": errors,
            "gauges": {name: getattr(self, name).value for name in _GAUGES},
        }

    def export_prometheus(self):
        """Everything in the text format of Prometheus."""
        every = self.get_all()
        lines = []
        for op, stats in every["latency"].items():
            name = f"dcs_{op}_latency_seconds"
            lines.append(f"# TYPE {name} histogram")
            lines += [f'{name}_bucket{{le="{bound}"}} {count}' for bound, count in stats["buckets"].items()]
            lines += [f"{name}_sum {stats['sum']}", f"{name}_count {stats['count']}"]
        for name, value in every["counters"].items():
            if name != "errors":
                lines += [f"# TYPE dcs_{name}_total counter", f"dcs_{name}_total {value}"]
        lines.append("# TYPE dcs_errors_total counter")
        for name, value in every["errors"].items():
            escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
            lines.append(f'dcs_errors_total{{type="{escaped}"}} {value}')
        if not every["errors"]:
            lines.append("dcs_errors_total 0")
        for name, value in every["gauges"].items():
            lines += [f"# TYPE dcs_{name} gauge", f"dcs_{name} {value}"]
        lines += ["# TYPE dcs_uptime_seconds gauge", f"dcs_uptime_seconds {every['uptime_seconds']}"]
        return "\n".join(lines) + "\n"


_global = MetricsCollector()


def get_metrics():
    """The metrics of this process."""
    return _global
