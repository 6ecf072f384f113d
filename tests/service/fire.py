"""Replicas of the service at one PostgreSQL under fire: they are killed, it is restarted, and no promise may break.

    python tests/service/fire.py [--admissions 10000] [--replicas 4] [--clients 8] [--kills 40] [--restarts 10]
        [--seed 0] [--area 1] [--folder DIR]

Each replica is a process that serves over HTTP, each with its clients, which ask about points of the plane, half of the
time in l2 and half in l1. All clients ask about one small neighbourhood at the same moment, where noise of many scales
certifies large regions of one class and small ones of another, so that regions meet. A client also asks other replicas
about points of regions that it was promised. Replicas get SIGKILL and begin again; the database restarts at once, as
after a crash. What was acknowledged is compared at the end with what the tables hold, by the arithmetic of
tests/memory/brute_force.py, and with what the replicas answer. Prints JSON; the exit code is 1 if anything is wrong.
"""

import argparse
import json
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import torch

sys.path[:0] = [str(Path(__file__).parents[1] / "memory"), str(Path(__file__).parents[1])]
import brute_force
from postgres_server import Server

import anisocert as ac
from anisocert.memory import UnavailableError
from anisocert.optimize import Method
from anisocert.service import Client, KeyFile, ServiceError, add_key
from anisocert.service.service import Service
from anisocert.service.serving import Address, serve

BLOCK, CELL, ISLAND, CLASSES = 10.0, 2.0, 0.3, 3
ON_ISLANDS = 0.6  # share of inputs
NOISES = {2: ac.Gaussian(1.0), 1: ac.Uniform(2.0)}
HOT_SECONDS = 0.5  # for which all clients ask about one neighbourhood
AGAIN = 0.25  # share of questions about what was promised before
begin = multiprocessing.get_context("fork")


class Islands(torch.nn.Module):
    """Blocks of one class each, with a round island of the next class in each cell."""

    def forward(self, x):
        block = torch.floor(x / BLOCK)
        main = (block[:, 0] + 2 * block[:, 1]).long() % CLASSES
        island = ((x % CELL - CELL / 2) ** 2).sum(1) < ISLAND**2
        return torch.nn.functional.one_hot((main + island.long()) % CLASSES, CLASSES).float()


class AnyScale(Method):
    """Theta from 0.05 to 1.25 times the noise's own in each direction, as if by chance, a function of the input."""

    name = "any-scale"

    def choose(self, query, plan):
        mixed = torch.sin(query.x.double() @ torch.tensor([[12.9898, 78.233], [39.346, 11.135]]).double()) * 43758.5453
        return (0.05 * 25.0 ** (mixed - mixed.floor()) * float(query.smoothing.theta)).float()


def system(norm, memory):
    return ac.System(
        Islands().eval(), num_classes=CLASSES, smoothing=NOISES[norm], method=AnyScale(), plan=ac.Plan(n0=20, n=200),
        memory=memory, secret=os.urandom(32), numerics=ac.Numerics("float32", False),
    )  # fmt: skip


def replica(url, port, keys, norm, log):
    """Serve until told to stop, or killed."""
    os.dup2(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600), 2)
    while True:
        with suppress(UnavailableError), ac.Memory.open(url) as memory:
            service = Service(system(norm, memory), KeyFile(keys), shape=(2,))
            return serve(service, Address(port=port))
        time.sleep(0.05)


class Asker:
    """One client: asks its own replica, another one where that gives no answer, and writes down what it is told."""

    def __init__(self, ports, token, own, log, seed):
        self.clients = [Client(f"http://127.0.0.1:{port}", token, "classifier", seconds=120) for port in ports]
        self.own, self.log, self.seed, self.rng, self.promises = own, log, seed, np.random.default_rng(seed), []

    def ask(self, first, x, **options):
        turn = first
        while True:
            try:
                return self.clients[turn % len(self.clients)].answer(x[None], **options)
            except ServiceError as error:
                self.log("refused", error.status)
                turn += 1
                time.sleep(0.05)

    def once(self, side):
        if self.promises and self.rng.random() < AGAIN:
            return self.look_again()
        spot = np.random.default_rng([self.seed[0], int(time.monotonic() / HOT_SECONDS)]).uniform(0, side, 2)
        x = spot + self.rng.normal(0, 2, 2)
        if self.rng.random() < ON_ISLANDS:
            x = (np.floor(x / CELL) + 0.5) * CELL + self.rng.normal(0, 0.1, 2)
        x = x.astype(np.float32)
        found = self.ask(self.own, x, more=("region", "evidence"))
        axes, evidence = found.more["region"][0], json.loads(found.more["evidence"][0])
        where = ("-", "-") if not axes.all() else (hexed(x), hexed(axes))
        self.log("told", evidence["id"], found.prediction[0], found.note[0], *where)
        if axes.all():
            self.promises = [*self.promises[-200:], (x, axes, found.prediction[0])]
        return None

    def look_again(self):
        """Another replica's answer about a point of a promised region."""
        center, axes, prediction = self.promises[self.rng.integers(len(self.promises))]
        norm = self.seed[1]
        step = self.rng.uniform(-1, 1, 2)
        point = (center + 0.9 * axes * step / np.linalg.norm(step, norm)).astype(np.float32)
        if brute_force.gauge(center.astype(float), axes, point[None].astype(float), norm)[0] < 0.95:
            other = self.own + 1 + int(self.rng.integers(max(1, len(self.clients) - 1)))
            found = self.ask(other, point, lookup=True).prediction[0]
            self.log("stands" if found == prediction else "broken", int(found), int(prediction), hexed(point))


def hexed(values):
    return np.asarray(values, np.float64).tobytes().hex()


def clients(ports, token, own, path, side, count, seed, stop):
    """The clients of one replica, in a process of their own."""
    file, lock = path.open("a"), threading.Lock()

    def log(*words):
        with lock:
            file.write(" ".join(map(str, words)) + "\n")
            file.flush()

    def work(i):
        asker = Asker(ports, token, own, log, (*seed, own, i))
        while not stop.is_set():
            asker.once(side)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(work, range(count)))


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as one:
        return one.getsockname()[1]


class Fire:
    """All admissions of one norm."""

    def __init__(self, server, options, norm):
        self.server, self.options, self.norm = server, options, norm
        self.schema, self.target = f"served_l{norm}", options.admissions // 2
        self.url, self.rng = server.url(self.schema), np.random.default_rng([options.seed, norm])
        self.keys, self.ports = server.folder / f"keys-l{norm}.json", [free_port() for _ in range(options.replicas)]
        rights = ("lookup", "admit", "regions")
        self.token = add_key(self.keys, "fire", rights=rights, per_minute=10**9, most_bytes=1 << 20)
        self.stop, self.killed, self.wrong = begin.Event(), 0, []

    def start(self, i):
        log = self.server.folder / f"served-l{self.norm}-service-{i}.log"
        process = begin.Process(target=replica, args=(self.url, self.ports[i], self.keys, self.norm, log))
        process.start()
        return process

    def submissions(self):
        with self.server.connect() as admin:
            return admin.execute(f"SELECT count(*) FROM {self.schema}.submissions").fetchone()[0]

    def __call__(self):
        """What was counted; what is wrong is in `wrong`."""
        with ac.Memory.open(self.url):
            pass
        running = [self.start(i) for i in range(self.options.replicas)]
        logs = [self.server.folder / f"served-l{self.norm}-{i}.log" for i in range(len(running))]
        side, seed = (self.target * self.options.area) ** 0.5, (self.options.seed, self.norm)
        asking = [begin.Process(target=clients, args=(self.ports, self.token, i, logs[i], side, self.options.clients,
                  seed, self.stop)) for i in range(len(running))]  # fmt: skip
        for one in asking:
            one.start()
        self.harm(running)
        self.stop.set()
        for one in asking:
            one.join()
        lines = [line.split(" ") for log in logs for line in log.read_text().splitlines()]
        told = [words[1:] for words in lines if words[0] == "told"]
        self.wrong += [f"a point of a promised region was answered otherwise: {words}" for words in lines
                       if words[0] == "broken"]  # fmt: skip
        self.ask_again(told)
        for one in running:
            one.terminate()
            one.join(60)
        self.wrong += [f"clients ended with {one.exitcode}" for one in asking if one.exitcode]
        self.wrong += [f"a replica ended with {one.exitcode}" for one in running if one.exitcode != 0]
        found, tables = brute_force.look(self.server, self.schema, self.norm, None, told)
        with ac.Memory.open(self.url, read_only=True) as memory:
            checked = memory.check()
        self.wrong += [*found, *checked.damage, *(f"regions of {one.ids} may meet" for one in checked.conflicts)]
        kinds = Counter(words[0] for words in lines)
        return tables | {
            "answers": len(told), "notes": dict(Counter(words[2] for words in told)), "kills": self.killed,
            "restarts": self.options.restarts // 2, "points_asked_elsewhere": kinds["stands"],
            "refused": dict(Counter(words[1] for words in lines if words[0] == "refused")),
        }  # fmt: skip

    def harm(self, running):
        """Kill replicas and restart the database, at random moments, until enough was submitted."""
        events = ["kill"] * (self.options.kills // 2) + ["restart"] * (self.options.restarts // 2)
        moments = sorted(zip(self.rng.uniform(0, 0.95 * self.target, len(events)), events, strict=True))
        while (submitted := self.submissions()) < self.target or moments:
            while moments and moments[0][0] <= submitted:
                if moments.pop(0)[1] == "restart":
                    self.server.restart()
                    continue
                victim = int(self.rng.integers(len(running)))
                os.kill(running[victim].pid, signal.SIGKILL)
                running[victim].join()
                if running[victim].exitcode != -signal.SIGKILL:
                    self.wrong.append(f"a replica ended with {running[victim].exitcode}")
                self.killed += 1
                running[victim] = self.start(victim)
            time.sleep(0.05 if self.target < 1000 else 0.5)

    def ask_again(self, told):
        """What each replica says afterwards about inputs that were answered."""
        asker = Asker(self.ports, self.token, 0, lambda *_: None, (self.options.seed, self.norm))
        some = [one for one in told if one[3] != "-"]
        for i, (number, prediction, _, center, _) in enumerate(some[:: max(1, len(some) // 200)]):
            x = np.frombuffer(bytes.fromhex(center)).astype(np.float32)
            if (found := asker.ask(i, x, lookup=True).prediction[0]) != int(prediction):
                self.wrong.append(f"input {number} was promised class {prediction}, and is answered {found}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = {"admissions": 10_000, "replicas": 4, "clients": 8, "kills": 40, "restarts": 10, "seed": 0}
    for name, value in usual.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--area", type=float, default=1.0, help="of the plane, per admission")
    parser.add_argument("--folder", help="where the database is (default: in memory, where that is possible)")
    options = parser.parse_args()
    torch.set_num_threads(1)  # replicas are forked
    server, wrong, said, began = Server(options.folder), [], {}, time.monotonic()
    try:
        for norm in (2, 1):
            system(norm, ac.Memory()).answers(np.zeros((4, 2), np.float32))  # so that no replica spends its life on it
            one = Fire(server, options, norm)
            said[f"l{norm}"] = one()
            wrong += [f"l{norm}: {what}" for what in one.wrong]
    finally:
        server.remove()
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps(said | {"seconds": seconds, "violations": len(wrong), "first": wrong[:5]}, indent=2))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
