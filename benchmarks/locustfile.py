"""Load on a running service, for locust: lookups of what is promised, and inputs that were never seen.

    ANISOCERT_KEY=anisocert_... locust -f benchmarks/locustfile.py --headless -u 32 -r 8 -t 60s -H http://127.0.0.1:8000

ANISOCERT_LOAD: `lookup` or `certify` for one kind of request alone, else nine lookups for each input that is certified.
ANISOCERT_INPUTS: inputs per request (1). ANISOCERT_KNOWN: an .npy file of inputs to look up; else each user looks up
what it has had certified: for lookups alone, two inputs at the start. ANISOCERT_N: votes per input that is certified,
where they are fewer than the service's own. The model and the shape of its inputs come from the service's own metadata.
Inputs are random, with a standard deviation of 1 around 0.5, so that none lies in the region of another.
"""

import os
from typing import ClassVar

import numpy as np
from locust import FastHttpUser, task  # type: ignore[import-not-found,unused-ignore]

from anisocert.service._tensors import HEADER_LENGTH, joined

ASKED = 64  # known inputs per user
INPUTS = int(os.environ.get("ANISOCERT_INPUTS", "1"))
LOAD = os.environ.get("ANISOCERT_LOAD", "mixed")
PLAN = {"n": int(os.environ["ANISOCERT_N"])} if "ANISOCERT_N" in os.environ else {}


class Asker(FastHttpUser):
    default_headers: ClassVar = {"Authorization": f"Bearer {os.environ['ANISOCERT_KEY']}"}

    def on_start(self) -> None:
        self.model = self.client.get("/v2").json()["models"][0]
        self.shape = self.client.get(f"/v2/models/{self.model}").json()["inputs"][0]["shape"][1:]
        self.random, self.known = np.random.default_rng(), []
        if "ANISOCERT_KNOWN" in os.environ:
            self.known = list(np.load(os.environ["ANISOCERT_KNOWN"]))
        elif LOAD == "lookup":
            self.certify_fresh(2, "prepare")

    def certify_fresh(self, count: int, name: str) -> None:
        x = self.random.normal(0.5, 1, (count, *self.shape)).astype(np.float32)
        if self.ask(x, lookup=False, name=name):
            self.known = [*self.known, *x][-ASKED:]

    def ask(self, x: np.ndarray, lookup: bool, name: str) -> bool:
        """Whether it was answered."""
        parameters = {"lookup": lookup} if lookup else {"lookup": lookup, **PLAN}
        body, length = joined({"parameters": parameters}, {"x": x}, {"x": True}, "inputs")
        headers = {HEADER_LENGTH: str(length)}
        response = self.client.post(f"/v2/models/{self.model}/infer", body, headers=headers, name=name)
        return bool(response.status_code == 200)

    @task(0 if LOAD == "certify" else 9)
    def lookup(self) -> None:
        if self.known:
            chosen = self.random.integers(len(self.known), size=INPUTS)
            self.ask(np.stack([self.known[i] for i in chosen]), lookup=True, name="lookup")

    @task(0 if LOAD == "lookup" else 1)
    def certify(self) -> None:
        self.certify_fresh(INPUTS, "certify")
