"""What prometheus reads: requests, answers, the queue, the memory and the alpha it has spent."""

from collections.abc import Callable, Iterator

from anisocert.errors import from_extra
from anisocert.memory import Stats

with from_extra("serve", "the service needs prometheus-client"):
    from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
    from prometheus_client.core import GaugeMetricFamily

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)


class Metrics:
    """Counts of one service. waiting: how many inputs are in the queue."""

    def __init__(self, waiting: Callable[[], int]) -> None:
        self.registry = of = CollectorRegistry()
        self.requests = Counter("anisocert_requests", "Requests by route and status.", ["route", "status"], registry=of)
        self.seconds = Histogram(
            "anisocert_request_seconds", "Time per request.", ["route"], buckets=SECONDS, registry=of
        )
        self.answers = Counter("anisocert_answers", "Answers by what the memory did.", ["note"], registry=of)
        self.batches = Histogram(
            "anisocert_batch_inputs", "Inputs per batch of the network.", buckets=SIZES, registry=of
        )
        self.network = Counter("anisocert_network_seconds", "Time in which inputs were certified.", registry=of)
        self.failures = Counter(
            "anisocert_failures", "Batches and requests that failed unexpectedly.", ["kind"], registry=of
        )
        Gauge("anisocert_inputs_waiting", "Inputs in the queue.", registry=of).set_function(waiting)

    def batch(self, inputs: int, seconds: float) -> None:
        """Count a batch."""
        self.batches.observe(inputs)
        self.network.inc(seconds)

    def text(self, memory: Stats | None) -> bytes:
        """As prometheus reads it. memory: its numbers now, which other processes change too; None: left out."""
        text: bytes = generate_latest(self.registry)
        if memory is not None:
            registry = CollectorRegistry()
            registry.register(_OfMemory(memory))
            text += generate_latest(registry)
        return text


class _OfMemory:
    def __init__(self, now: Stats) -> None:
        self._now = now

    def collect(self) -> Iterator[GaugeMetricFamily]:
        now = self._now
        numbers = {
            "entries": ("Promises that are stored.", now.entries),
            "submissions": ("Certificates that were submitted, abstentions included.", now.submissions),
            "bytes": ("Size of the store.", now.file_bytes),
            "alpha_spent": (
                "Probability that any promise is wrong, at most: all alphas, or the part of a lifetime's given out.",
                now.alphas if now.lifetime is None else now.spent,
            ),
        }
        for name, (words, value) in numbers.items():
            yield GaugeMetricFamily(f"anisocert_memory_{name}", words, value)
