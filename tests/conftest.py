"""Toy classifiers whose answers under noise are known exactly, and the exact relation of two regions."""

import contextlib
import gc
import importlib.util
import itertools
import json
import math
import os
import shutil
import signal
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import settings
from safetensors.numpy import load_file, save_file
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from torch import Tensor, nn

from anisocert.certificate import Certificate
from anisocert.data import digits
from anisocert.engine import Numerics
from anisocert.engine._rows import first_rung
from anisocert.errors import ArgumentError
from anisocert.geometry import Region
from anisocert.memory import _kinds as kinds
from anisocert.memory import shown
from anisocert.memory._head import TABLES, Head
from anisocert.memory.opening import STORES
from anisocert.models import build, save
from anisocert.runs import Configuration, read_run, row
from anisocert.runs import folder as files
from anisocert.runs.files import DESCRIPTION, TABLE, checksum, write_description
from anisocert.runs.rows import SCHEMA
from anisocert.work import Circumstances, Outcome, certify_run, load_job
from anisocert.work.workers import InProcess

# A deadline measures the machine, which others share, not the code.
settings.register_profile("no deadline", deadline=None)
settings.load_profile("no deadline")

LONGEST = (
    "docs/test_tour.py", "experiments/test_tables.py", "test_certification.py", "work/test_workers.py",
    "train/test_recipes_on_digits.py", "cli/test_demo.py", "cli/test_certify.py", "work/test_surviving.py",
    "diagnosis/test_diagnosis.py", "cli/test_reproduce.py", "reproduce/test_running.py", "work/test_running.py",
    "cli/test_attack_first.py", "work/test_remembering.py", "train/test_denoising.py", "verify/test_verifying.py",
    "cli/test_denoise.py", "cli/test_serve.py", "test_system.py", "test_imports.py", "service/test_fire.py",
)  # fmt: skip


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files that take longest come first, so that no process is left alone with one in the end."""
    place = {Path(__file__).parent / name: number for number, name in enumerate(LONGEST)}
    items.sort(key=lambda item: place.get(item.path, len(place)))


class HalfSpace(nn.Module):
    """Class 0 where <normal, x> > offset, else class 1; |normal| = 1, so that distances are those to a plane."""

    def __init__(self, normal: list[float], offset: float = 0.0) -> None:
        super().__init__()
        unit = torch.tensor(normal, dtype=torch.float64)
        self.normal = nn.Parameter((unit / unit.norm()).float())
        self.register_buffer("offset", torch.tensor(offset))

    def forward(self, x: Tensor) -> Tensor:
        height = (x.flatten(1) * self.normal).sum(1) - self.offset
        return torch.stack([height, -height], 1)


class CoordinateThreshold(nn.Module):
    """Class 0 where the first coordinate is above zero, else class 1."""

    def forward(self, x: Tensor) -> Tensor:
        first = x.flatten(1)[:, 0]
        return torch.stack([first, -first], 1)


class KnownShares(nn.Module):
    """At x = 0 under noise of scale 1, class i has probability shares[i] exactly: the first coordinate decides."""

    def __init__(self, shares: list[float], base: str = "normal") -> None:
        super().__init__()
        inner = np.cumsum(shares)[:-1]
        edges = ndtri(inner) if base == "normal" else 2 * inner - 1
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float32))

    def forward(self, x: Tensor) -> Tensor:
        above = (x.flatten(1)[:, :1] > self.edges).float()
        ones = torch.ones_like(x.flatten(1)[:, :1])
        return torch.cat([ones, above], 1) - torch.cat([above, 0 * ones], 1)  # one-hot


class Bands(nn.Module):
    """Labels in bands across one direction: labels[i] where <normal, x> is the i-th of the intervals between edges."""

    def __init__(self, normal: Sequence[float], edges: Sequence[float], labels: Sequence[int], classes: int) -> None:
        super().__init__()
        self.classes = classes
        self.register_buffer("normal", torch.tensor(normal, dtype=torch.float32))
        self.register_buffer("edges", torch.tensor(edges, dtype=torch.float32))
        self.register_buffer("labels", torch.tensor(labels))

    def forward(self, x: Tensor) -> Tensor:
        height = x.flatten(1) @ self.normal
        return nn.functional.one_hot(self.labels[torch.bucketize(height, self.edges)], self.classes).float()

    def shares(self, z: np.ndarray, theta: np.ndarray | float) -> np.ndarray:
        """The exact share of each class around points under Gaussian noise. z: `m x d` -> `m x classes`."""
        normal = self.normal.double().numpy()
        deviation = math.sqrt(float((np.square(normal) * np.square(np.broadcast_to(theta, normal.shape))).sum()))
        below = ndtr((self.edges.double().numpy() - (z @ normal)[:, None]) / deviation)
        within = np.diff(below, axis=1, prepend=0.0, append=1.0)
        return np.stack([within[:, self.labels.numpy() == label].sum(1) for label in range(self.classes)], 1)

    @classmethod
    def random(cls, rng: np.random.Generator, dim: int, classes: int, width: float) -> "Bands":
        """Up to nine bands, each about as wide as `width`."""
        normal, count = rng.normal(size=dim), rng.integers(2, 10)
        edges = (np.cumsum(rng.uniform(0.2, 2, count)) - count / 2) * width
        return cls(normal / np.linalg.norm(normal), edges, rng.integers(0, classes, count + 1), classes).eval()


class ListStore:
    """Lists under a name, which all in this process that know the name share, one at a time.

    Those of the host `locked` have a password, `secret`.
    """

    shared: dict = {}  # noqa: RUF012

    def __init__(self, place, policy, read_only=False):
        self.place, self.read_only = None if place is None else self._name(place), read_only
        fresh = {"head": Head.new(policy), "lock": threading.RLock()} | {table: [] for table in TABLES}
        self._kept = fresh if place is None else self.shared.setdefault(self.place, fresh)

    @staticmethod
    def _name(place):
        if "@locked" in place and ":secret@" not in place:
            raise ArgumentError(f"expected a password for {shown(place)}, got none")
        return shown(place)

    @staticmethod
    def exists(place):
        return ListStore._name(place) in ListStore.shared

    @contextlib.contextmanager
    def begin(self, write, generation="", after=0):
        with self._kept["lock"]:
            before = {name: self._kept[name] for name in ("head", *TABLES)}
            head = self._kept["head"]
            try:
                yield head, self.rows("entries", after if head.generation == generation else 0)
            except BaseException:
                self._kept |= before
                raise

    def append(self, head, table, rows):
        self._kept |= {"head": head, table: [*self._kept[table], *rows]}

    def rows(self, table, after=0):
        yield from self._kept[table][after:]

    def find(self, table, column, value):
        place = list(kinds.KINDS[table]).index(column)
        return [row for row in self._kept[table] if row[place] == value]

    def regions(self, numbers):
        places = [list(kinds.KINDS["entries"]).index(name) for name in ("center", "axes")]
        for number in numbers:
            yield tuple(self._kept["entries"][number - 1][place] for place in places)

    def columns(self, names):
        places = [list(kinds.KINDS["entries"]).index(name) for name in names]
        return [tuple(row[place] for place in places) for row in self._kept["entries"]]

    def reset(self, policy):
        with self.begin(write=True):
            self._kept |= {"head": self._kept["head"].emptied(policy)} | {table: [] for table in TABLES}

    @property
    def nbytes(self):
        return sum(len(value) for table in TABLES for row in self._kept[table] for value in row if type(value) is bytes)

    def damage(self):
        return []

    def close(self):
        pass


@pytest.fixture
def list_store(monkeypatch: pytest.MonkeyPatch) -> type[ListStore]:
    """A second store, for URLs that begin with lists://; empty."""
    monkeypatch.setitem(STORES, "lists", ListStore)
    monkeypatch.setattr(ListStore, "shared", {})
    return ListStore


def exact_touch_l1(a: Region, b: Region) -> Fraction:
    """The same exactly, by the fractional knapsack in rational numbers."""
    items = []
    for ca, cb, sa, sb in zip(a.center.flat, b.center.flat, a.axes.flat, b.axes.flat, strict=True):
        items.append((abs(Fraction(cb) - Fraction(ca)), 1 / Fraction(sa), 1 / Fraction(sb)))
    missing = sum((y * inv_a for y, inv_a, _ in items), Fraction(0)) - 1
    cost = Fraction(0)
    for y, inv_a, inv_b in sorted(items, key=lambda item: item[1] / item[2], reverse=True):
        if missing <= 0:
            break
        step = min(y, missing / inv_a)
        cost += step * inv_b
        missing -= step * inv_a
    return cost


def exact_touch_l2(a: Region, b: Region) -> Decimal:
    """Smallest gauge of b over the ellipsoid a, to 50 digits: Newton's method for the multiplier of the touch point.

    The gauge of a falls convexly with the multiplier, so that steps from below come ever nearer and never beyond.
    """
    with localcontext() as context:
        context.prec = 120
        items = []
        for ca, cb, sa, sb in zip(a.center.flat, b.center.flat, a.axes.flat, b.axes.flat, strict=True):
            a2, b2 = Decimal(sa) ** 2, Decimal(sb) ** 2
            items.append(((Decimal(cb) - Decimal(ca)) ** 2, a2, b2))

        def gauge_a(multiplier: Decimal) -> tuple[Decimal, Decimal]:
            """Its square, and how fast that falls."""
            square = fall = Decimal(0)
            for y2, a2, b2 in items:
                inverse = 1 / (a2 + multiplier * b2)
                part = y2 * a2 * inverse * inverse
                square += part
                fall += 2 * part * inverse * b2
            return square, fall

        if gauge_a(Decimal(0))[0] <= 1:
            return Decimal(0)
        low, step = Decimal(0), Decimal(1)
        while step > low * Decimal("1e-60"):
            square, fall = gauge_a(low)
            step = (square - 1) / fall
            low += step
        square = sum((y2 * low**2 * b2 / (a2 + low * b2) ** 2 for y2, a2, b2 in items), Decimal(0))
        return square.sqrt()


def exact_touch(a: Region, b: Region) -> Fraction:
    """Smallest gauge of b over a; exact for norm 1, to 50 digits for norm 2."""
    return exact_touch_l1(a, b) if a.norm == 1 else Fraction(exact_touch_l2(a, b))


@pytest.fixture(name="exact_touch", scope="session")
def _exact_touch() -> Callable[[Region, Region], Fraction]:
    return exact_touch


def refit_memory(path: Path) -> None:
    """Make the checksums of a memory's file fit what it holds now, as somebody who edits it with care would."""
    from anisocert.memory import _chain as chain
    from anisocert.memory._head import COLUMNS, TABLES

    db = sqlite3.connect(path)
    with db:
        row = dict(zip(COLUMNS, db.execute(f"SELECT {', '.join(COLUMNS)} FROM head").fetchone(), strict=True))
        for table in TABLES:
            rows = db.execute(f"SELECT * FROM {table} ORDER BY number").fetchall()
            link = chain.first(table, row["generation"])
            for values in rows:
                link = chain.link(link, values[:-1])
                db.execute(f"UPDATE {table} SET link = ? WHERE number = ?", (link, values[0]))
            row |= {table: len(rows), f"{table}_link": link}
        values = [row[name] for name in COLUMNS[:-1]]
        marks = ", ".join("?" * len(COLUMNS))
        db.execute(f"INSERT OR REPLACE INTO head VALUES (1, {marks})", (*values, chain.link(b"head", values)))
    db.close()


@pytest.fixture(name="refit_memory", scope="session")
def _refit_memory() -> Callable[[Path], None]:
    return refit_memory


@pytest.fixture
def half_space() -> type[HalfSpace]:
    return HalfSpace


@pytest.fixture(scope="session")
def bands() -> type[Bands]:
    return Bands


@pytest.fixture
def coordinate_threshold() -> nn.Module:
    return CoordinateThreshold().eval()


@pytest.fixture
def known_shares() -> Callable[..., nn.Module]:
    return lambda shares, base="normal": KnownShares(shares, base).eval()


@pytest.fixture
def small_network() -> nn.Module:
    """An untrained convolutional network, 8x8 images of one channel, whose class scores are close to each other."""
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1, bias=False),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(128, 5),
    )
    model[1].running_mean.uniform_(-0.2, 0.2)
    model[1].running_var.uniform_(0.5, 2)
    return model.eval()


@pytest.fixture
def exact_products() -> Iterator[None]:
    """A user who has asked for convolutions without TF32; torch then refuses to be told of all of cuDNN at once."""
    conv = torch.backends.cudnn.conv
    before, conv.fp32_precision = conv.fp32_precision, "ieee"
    yield
    after, conv.fp32_precision = conv.fp32_precision, before
    assert after == "ieee"


@pytest.fixture
def within_rate() -> Callable[[int, int, float], bool]:
    """Whether so many failures in so many runs are compatible with a failure rate of at most `rate`."""
    return lambda failures, runs, rate: bool(failures <= binom.ppf(1 - 1e-4, runs, rate))


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Thousands of tiny operations: a second thread would only wait for the first, for long on a busy machine.

    Processes that tests start are told so too, and sum in the same order.
    """
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session", autouse=True)
def _no_home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What attacks keep for this user is not the developer's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(tmp_path_factory.mktemp("state")))
        yield


@pytest.fixture(scope="session", autouse=True)
def _few_rows() -> Iterator[None]:
    """Where nobody says how many rows a call has: few for images, as for the few votes here most would be padding."""

    def few(device: torch.device, shape: tuple[int, ...], per_row: Callable[[], int]) -> int:
        usual = first_rung(device, shape, per_row)
        return min(usual, 160) if len(shape) >= 3 else usual

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anisocert.engine.network.first_rung", few)
        yield


@pytest.fixture(scope="session", autouse=True)
def _short_measurements() -> Iterator[None]:
    """How fast a network is here, no test asks: it is measured in a moment."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("anisocert.work.forecast.PROBE_SECONDS", 0.01)
        yield


@pytest.fixture(scope="session")
def trained_digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small network trained for seconds on digits with Gaussian noise of 0.25, in a file."""
    from anisocert.data import digits
    from anisocert.models import build, save
    from anisocert.smoothing import Gaussian
    from anisocert.train import Cohen, Sgd, train

    data = digits("train")
    torch.manual_seed(0)
    model = build("small-cnn", data.num_classes, data.mean, data.std)
    train(model, data, Cohen(), Gaussian(0.25), sgd=Sgd.suited(len(data), 6), seed=0)
    path = tmp_path_factory.mktemp("trained") / "digits.safetensors"
    save(model, path, {"architecture": "small-cnn", "num_classes": 10, "mean": data.mean, "std": data.std})
    return path


class Stripes(nn.Module):
    """Two classes in stripes across the first coordinate, which grow wider."""

    def forward(self, x: Tensor) -> Tensor:
        height = torch.sin(12 * torch.sqrt(x.flatten(1)[:, 0].clamp_min(0) + 0.01))
        return torch.stack([height, -height], 1)


@pytest.fixture(scope="session")
def stripes() -> nn.Module:
    return Stripes().eval()


def write_run(folder: Path, certificates: Sequence[Certificate], labels: Sequence[int], **options: Any) -> None:
    """A finished run of these certificates, by the writers of every run. options: of its configuration."""
    first, said = certificates[0], {"model": "none.safetensors", "data": "digits", "sigma": 0.25} | options
    said = {
        "method": first.method,
        "norm": f"l{first.norm}",
        "noise": first.noise,
        "alpha": first.alpha,
        "model_hash": first.model_hash,
    } | said
    rows = [row(one, int(label), said["sigma"]) for one, label in zip(certificates, labels, strict=True)]
    files.clear(folder)
    files.write_thetas(folder, ((one.id, one.theta) for one in certificates))
    files.write_table(folder, pa.Table.from_pylist(rows, SCHEMA))
    files.describe(folder, Configuration(**said).to_dict())


@pytest.fixture(name="write_run", scope="session")
def _write_run() -> Callable[..., None]:
    return write_run


@pytest.fixture(scope="session")
def forge() -> Callable[..., Path]:
    """forge(run, change, **said): what run.json says, and rows, in place by `change(rows)`; all checksums fit again."""

    def forged(run: Path, change: Callable[[list[dict[str, Any]]], object] | None = None, /, **said: Any) -> Path:
        if change is not None:
            table = pq.read_table(run / TABLE)
            rows = table.to_pylist()
            change(rows)
            pq.write_table(pa.Table.from_pylist(rows, table.schema), run / TABLE)
        described = json.loads((run / DESCRIPTION).read_text())
        fitting = {name: checksum(run / name) for name in described["files"]}
        write_description(run, described | {"files": fitting} | said)
        return run

    return forged


@pytest.fixture(scope="session")
def forge_theta(forge: Callable[..., Path]) -> Callable[..., Path]:
    """forge_theta(run, change): the thetas by id, in place by `change(thetas)`; all checksums fit again."""

    def forged(run: Path, change: Callable[[dict[str, Any]], object]) -> Path:
        file = run / "theta" / "theta.safetensors"
        thetas = load_file(file)
        change(thetas)
        save_file(thetas, file)
        return forge(run)

    return forged


@pytest.fixture(scope="session")
def systems(stripes: nn.Module, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Runs of every kind of system on the same 24 inputs.

    `fixed` and `own` (isotropic noise, no memory); `inherit`, `abstain` and `worst-case`: the latter through a memory
    of that policy, which is NAME.sqlite beside the run; `own-wide`: as `own`, from another noise level.
    """
    import anisocert as ac
    from anisocert.work import add_to_memory

    folder = tmp_path_factory.mktemp("systems")
    x = np.random.default_rng(0).uniform(0.2, 3, (24, 2)).astype(np.float32)
    y = stripes(torch.from_numpy(x)).argmax(1).tolist()
    np.savez(folder / "stripes.npz", x=x, y=np.array(y))
    inputs = dict(enumerate(x))
    for name, method, sigma in (
        ("fixed", ac.Fixed(), 0.12), ("own", ac.Isotropic(), 0.12), ("own-wide", ac.Isotropic(), 0.15),
    ):  # fmt: skip
        plan = ac.Plan(n0=50, n=500)
        found = ac.certify(stripes, x, num_classes=2, smoothing=ac.Gaussian(sigma), method=method, plan=plan)
        said = {"data": str(folder / "stripes.npz"), "sigma": sigma, "n0": plan.n0, "n": plan.n}
        write_run(folder / name, found, y, **said)
        if name == "own":
            for policy in ("inherit", "abstain", "worst-case"):
                write_run(folder / policy, found, y, **said)
                with ac.Memory.open(folder / f"{policy}.sqlite", policy=policy) as memory:
                    add_to_memory(folder / policy, memory, inputs)
    return folder


def forked(work: Callable[[], None]) -> int:
    """The exit code of work done in a fork of this process, which may end at any point."""
    gc.freeze()  # else the child's first collection looks at all that the tests have loaded, and so copies it
    if (child := os.fork()) == 0:
        signal.alarm(120)  # it may wait for ever for a lock of a thread that it does not have
        code = 1
        with contextlib.suppress(BaseException):
            work()
            code = 0
        os._exit(code)
    gc.unfreeze()
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def killed_at_every_write(tmp_path: Path) -> Callable[..., int]:
    """Does work in forks, each in a folder of its own and killed at another write, and then once more to its end.

    Right before, or in turns right after, the n-th write reaches the disk; `check` looks at each folder. The number of
    writes.
    """

    def run(moment: float, work: Callable[[], None]) -> bool:
        real, count = os.fsync, 0

        def fsync(number: int) -> None:
            nonlocal count
            count += 1
            if count == moment and count % 2:
                os._exit(9)
            real(number)
            if count == moment:
                os._exit(9)

        def watched() -> None:
            os.fsync = fsync
            work()

        code = forked(watched)
        assert code in (0, 9)
        return code == 9

    def every(work: Callable[[Path], None], check: Callable[[Path], None]) -> int:
        moment, killed = 0, True
        while killed:
            moment += 1
            folder = tmp_path / str(moment)
            killed = run(moment, partial(work, folder))
            if killed:
                assert not run(math.inf, partial(work, folder))
            check(folder)
        return moment

    return every


@pytest.fixture(scope="session")
def network_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    torch.manual_seed(0)
    model = build("small-cnn", 10, (0.3,), (0.4,)).eval()
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(2)
    path = tmp_path_factory.mktemp("network") / "tiny.safetensors"
    save(model, path, {"architecture": "small-cnn", "num_classes": 10, "mean": (0.3,), "std": (0.4,)})
    return path


@pytest.fixture(scope="session")
def quick(network_file: Path) -> Configuration:
    """Forty digits with two hundred votes."""
    return Configuration(
        str(network_file), "digits", 0.25, method="fixed", n=200, max=40, device="cpu",
        numerics=Numerics("float32", False, 160),
    )  # fmt: skip


@pytest.fixture(scope="session")
def do() -> Callable[..., Outcome]:
    """Do a run in this process."""

    def run(configuration: Configuration, folder: Path, **circumstances: object) -> Outcome:
        job = load_job(configuration)
        return certify_run(job, folder, lambda: InProcess(job, "cpu"), Circumstances(**circumstances))

    return run


@pytest.fixture(scope="session")
def same() -> Callable[[Path, Path], bool]:
    """Whether two finished runs agree in everything but the time they took."""

    def agree(one: Path, other: Path) -> bool:
        a, b = read_run(one), read_run(other)
        thetas = [{number: theta.tobytes() for number, theta in run.thetas.items()} for run in (a, b)]
        return bool(thetas[0] == thetas[1] and a.table.drop_columns("seconds").equals(b.table.drop_columns("seconds")))

    return agree


@pytest.fixture(scope="session")
def whole(quick: Configuration, do: Callable[..., Outcome], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The quick run, never interrupted."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    assert do(quick, folder).finished
    return folder


@pytest.fixture(scope="session")
def remembering(quick: Configuration, tmp_path_factory: pytest.TempPathFactory) -> Callable[[Path], Configuration]:
    """A run through a memory in a given folder, in which answers depend on what was promised before.

    The inputs lie close together on a line from one class to another, and so large an alpha makes certificates that
    contradict each other.
    """
    a, b = digits("test").subset(ids=[0, 35]).x
    t = np.random.default_rng(22).permutation(np.linspace(0.7, 1.02, 12))[:, None, None, None]
    path = tmp_path_factory.mktemp("line") / "line.npz"
    np.savez(path, x=((1 - t) * a + t * b).astype(np.float32), y=np.full(12, 3))
    asked = replace(quick, data=str(path), sigma=0.5, n0=10, n=40, alpha=0.45, max=None)
    plain = replace(asked.numerics, grid=0.0)  # the noise that the line was chosen for
    return lambda folder: replace(asked, numerics=plain, memory=str(folder / "memory.sqlite"))


_spec = importlib.util.spec_from_file_location("postgres_server", Path(__file__).with_name("postgres_server.py"))
assert _spec is not None
assert _spec.loader is not None
postgres_server = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(postgres_server)
_names = (f"memory_{i}" for i in itertools.count())


@pytest.fixture(scope="session")
def postgres() -> Iterator[Any]:
    """A PostgreSQL server, one for all tests of this process."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    if postgres_server.binaries() is None:
        pytest.skip("PostgreSQL's initdb and pg_ctl are not installed")
    server = postgres_server.Server()
    yield server
    server.remove()


@pytest.fixture
def postgres_url(postgres: Any) -> str:
    """Where a memory in it may be made."""
    return str(postgres.url(next(_names)))


BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


@pytest.fixture(scope="session")
def browser():
    """A real browser; the sandbox is off because tests may run as root."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install '.[dev]'")
    with playwright.sync_playwright() as started:
        own = started.chromium.executable_path
        found = own if Path(own).exists() else next(filter(None, map(shutil.which, BROWSERS)), None)
        if found is None:
            pytest.skip("needs a browser: apt install chromium, or .venv/bin/playwright install chromium")
        short = {"TMPDIR": "/tmp"}  # a socket there must not have a long name
        options = {"args": ["--no-sandbox", "--disable-gpu"], "env": os.environ | short}
        try:
            launched = started.chromium.launch(executable_path=found, **options)
        except playwright.Error as error:  # as of a package that only says where to get the browser
            pytest.skip(f"{found} does not start ({str(error).splitlines()[0]}): .venv/bin/playwright install chromium")
        yield launched
        launched.close()
