"""Replicas at one PostgreSQL under fire: they are killed, it is restarted, and no promise may break.

    python tests/memory/fire.py [--admissions 10000] [--replicas 4] [--clients 8] [--kills 40] [--restarts 10]
        [--seed 0] [--folder DIR]

Each replica is a process with one memory and some client threads, which admit regions in the plane that meet often,
half of them l2 and half l1. Replicas get SIGKILL and begin again; the database restarts at once, as after a crash. What
was acknowledged is written down at that moment, and compared at the end with what the tables hold, by the arithmetic of
brute_force.py. Prints JSON; the exit code is 1 if anything is wrong.
"""

import argparse
import json
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
import brute_force
from conftest import proposal
from postgres_server import Server

from anisocert.memory import Memory, UnavailableError, UnknownOutcomeError

CLASSES = 3
LEAST = 0.05  # of a semi-axis


def item(norm, number, side):
    """The certificate with this id; now and then an abstention."""
    rng = np.random.default_rng([norm, number])
    center = rng.uniform(0, side, 2).astype(np.float32)
    axes = None if rng.random() < 0.05 else LEAST + np.exp(0.5 * rng.standard_normal(2))
    return proposal(number, int(rng.integers(CLASSES)), center, axes, norm)


class Log:
    """Lines that are kept even if the process is killed right after."""

    def __init__(self, path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def __call__(self, *words):
        os.write(self._file, (" ".join(map(str, words)) + "\n").encode())


def read(path):
    """Whole lines, as words."""
    text = path.read_text() if path.exists() else ""
    return [line.split(" ") for line in text.split("\n")[:-1]]


def numbers_of(values):
    return np.asarray(values, np.float64).tobytes().hex()


def replica(url, path, norm, mine, side, clients):
    """Admit what is not acknowledged yet; again after an error, which must have been true."""
    known = read(path)
    done, tried = ({int(words[1]) for words in known if words[0] == kind} for kind in ("told", "tried"))
    left, lock, log, memory = [i for i in mine if i not in done], threading.Lock(), Log(path), None
    while memory is None:
        try:
            memory = Memory.open(url)
        except UnavailableError:
            time.sleep(0.05)

    def admit(number):
        fresh = number not in tried
        log("tried", number)
        while True:
            try:
                answer = memory.admit(item(norm, number, side))
                break
            except UnknownOutcomeError:
                log("unknown", number)
                fresh = False
            except UnavailableError:
                log("denied", number)
                # It said that nothing was stored.
                if fresh and stored(number):
                    log("lied", number)
        region = answer.region
        where = ("-", "-") if region is None else (numbers_of(region.center), numbers_of(region.axes))
        log("told", number, answer.prediction, answer.note, *where)

    def stored(number):
        while True:
            try:
                return memory.find(number) is not None
            except UnavailableError:
                log("denied", number)

    def client():
        while True:
            with lock:
                if not left:
                    return
                number = left.pop()
            admit(number)

    with ThreadPoolExecutor(clients) as pool:
        for one in [pool.submit(client) for _ in range(clients)]:
            one.result()  # an error ends the process with it


def fire(server, options, norm):
    """All admissions of one norm, under fire; what was counted, and what is wrong."""
    count = options.admissions // 2
    side, url, rng = (2.2 * count) ** 0.5, server.url(f"fire_l{norm}"), np.random.default_rng([options.seed, norm])
    logs = [server.folder / f"l{norm}-{i}.log" for i in range(options.replicas)]
    parts = [list(rng.permutation(np.arange(i, count, options.replicas)).tolist()) for i in range(options.replicas)]
    with Memory() as warm, Memory.open(url):  # so that no replica spends its life on imports
        warm.admit_all([item(norm, number, 5) for number in range(30)])
    begin = multiprocessing.get_context("fork").Process
    starts = [lambda i=i: begin(target=replica, args=(url, logs[i], norm, parts[i], side, options.clients))
              for i in range(options.replicas)]  # fmt: skip
    running = [start() for start in starts]
    for one in running:
        one.start()
    events = ["kill"] * (options.kills // 2) + ["restart"] * (options.restarts // 2)
    moments = sorted(zip(rng.uniform(0, 0.95 * count, len(events)), events, strict=True))
    wrong, killed = [], 0
    while any(one.is_alive() for one in running):
        told = sum(words[0] == "told" for log in logs for words in read(log))
        while moments and moments[0][0] <= told:
            if moments.pop(0)[1] == "restart":
                server.restart()
            elif alive := [i for i, one in enumerate(running) if one.is_alive()]:
                victim = int(rng.choice(alive))
                os.kill(running[victim].pid, signal.SIGKILL)
                running[victim].join()
                killed += 1
                running[victim] = starts[victim]()
                running[victim].start()
        time.sleep(0.02 if count < 1000 else 0.2)
    wrong += [f"a replica ended with {one.exitcode}" for one in running if one.exitcode]
    lines = [words for log in logs for words in read(log)]
    told = [words[1:] for words in lines if words[0] == "told"]
    wrong += [f"input {words[1]} was stored, and denied" for words in lines if words[0] == "lied"]
    proposed = {number: item(norm, number, side) for number in range(count)}
    found, tables = brute_force.look(server, f"fire_l{norm}", norm, proposed, told)
    wrong += found + by_the_memory(url, told, proposed)
    kinds = Counter(words[0] for words in lines)
    return wrong, {
        "admissions": len(told), "notes": dict(Counter(words[2] for words in told)), "kills": killed,
        "restarts": options.restarts // 2, "denied": kinds["denied"], "unknown": kinds["unknown"], **tables,
    }  # fmt: skip


def by_the_memory(url, told, proposed):
    """What the memory itself finds wrong, once everybody has gone."""
    with Memory.open(url, read_only=True) as memory:
        checked = memory.check()
        wrong = [*checked.damage, *(f"regions of inputs {one.ids} may meet" for one in checked.conflicts)]
        for number, prediction, note, *_ in told[:: max(1, len(told) // 100)]:
            found = memory.lookup(proposed[int(number)].x)
            if note != "abstained" and (found is None or found.prediction != int(prediction)):
                wrong.append(f"input {number} was promised class {prediction}, and is not answered so")
    return wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    usual = {"admissions": 10_000, "replicas": 4, "clients": 8, "kills": 40, "restarts": 10, "seed": 0}
    for name, value in usual.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--folder", help="where the database is (default: in memory, where that is possible)")
    options = parser.parse_args()
    server, wrong, said, began = Server(options.folder), [], {}, time.monotonic()
    try:
        for norm in (2, 1):
            found, said[f"l{norm}"] = fire(server, options, norm)
            wrong += [f"l{norm}: {what}" for what in found]
    finally:
        server.remove()
    seconds = round(time.monotonic() - began, 1)
    print(json.dumps(said | {"seconds": seconds, "violations": len(wrong), "first": wrong[:5]}, indent=2))
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
