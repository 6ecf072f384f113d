"""Load on a running service, for locust: nine lookups for each input that is certified.

    ANISOCERT_KEY=anisocert_... locust -f benchmarks/locustfile.py --headless -u 32 -r 8 -t 60s -H http://127.0.0.1:8000

The model and the shape of its inputs come from the service's own metadata; inputs are random, in [0, 1].
"""

import os

import numpy as np
from locust import HttpUser, task  # type: ignore[import-not-found,unused-ignore]

from anisocert.service._tensors import HEADER_LENGTH, joined

ASKED = 64  # known inputs per user


class Asker(HttpUser):
    def on_start(self) -> None:
        self.client.headers["Authorization"] = f"Bearer {os.environ['ANISOCERT_KEY']}"
        self.model = self.client.get("/v2").json()["models"][0]
        self.shape = self.client.get(f"/v2/models/{self.model}").json()["inputs"][0]["shape"][1:]
        self.random, self.known = np.random.default_rng(), []

    def ask(self, x: np.ndarray, lookup: bool) -> None:
        body, length = joined({"parameters": {"lookup": lookup}}, {"x": x[None]}, {"x": True}, "inputs")
        name = "lookup" if lookup else "certify"
        self.client.post(f"/v2/models/{self.model}/infer", body, headers={HEADER_LENGTH: str(length)}, name=name)

    @task(9)
    def lookup(self) -> None:
        if self.known:
            self.ask(self.known[self.random.integers(len(self.known))], lookup=True)

    @task(1)
    def certify(self) -> None:
        x = self.random.random(self.shape).astype(np.float32)
        self.known = [*self.known[-ASKED:], x]
        self.ask(x, lookup=False)
