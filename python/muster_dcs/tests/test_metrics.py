"""Metrics have the names, labels, units and buckets of the document."""
import unittest

from muster_dcs import MetricsCollector


class MetricsTest(unittest.TestCase):
    def test_everything_is_in_get_all_and_in_the_text(self):
        metrics = MetricsCollector()
        metrics.record_send(bytes_sent=1024, duration=0.03)
        metrics.record_error("peer")
        stats = metrics.get_all()
        self.assertEqual(stats["counters"]["bytes_sent"], 1024)
        self.assertEqual(stats["latency"]["send"]["avg"], 0.03)
        self.assertEqual(stats["latency"]["recv"]["avg"], 0)
        text = metrics.export_prometheus()
        for line in ('dcs_send_latency_seconds_bucket{le="0.025"} 0', 'dcs_send_latency_seconds_bucket{le="0.05"} 1',
                     'dcs_send_latency_seconds_bucket{le="+Inf"} 1', "dcs_send_operations_total 1",
                     'dcs_errors_total{type="peer"} 1', "dcs_bytes_loaded_total 0"):
            self.assertIn(line + "\n", text)


if __name__ == "__main__":
    unittest.main()
