"""The certificate memory: what the system has promised, and what it therefore answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from numbers import Integral, Real
from pathlib import Path
from typing import Any, NoReturn

from anisocert.certificate import Certificate
from anisocert.errors import AnisocertError, ArgumentError
from anisocert.inputs import told
from anisocert.memory import _spending as spending
from anisocert.memory._admitting import admit
from anisocert.memory._belonging import check_same_input, check_shape, checked_certificates, checked_point
from anisocert.memory._evidence import digest_of_input
from anisocert.memory._export import export
from anisocert.memory._head import Head
from anisocert.memory._ledger import Ledger
from anisocert.memory._probe import expect
from anisocert.memory.asking import Prefer, all_covering, covering
from anisocert.memory.check import Check, check
from anisocert.memory.errors import BrokenMemoryError
from anisocert.memory.opening import store_of
from anisocert.memory.policy import INHERITED, POLICIES, policy_named
from anisocert.memory.stats import Stats, stats
from anisocert.memory.store import Store


class Memory:
    """The regions promised so far. Regions of different classes never share a point, so every promise stays true.

    `Memory()` lasts as long as the process; `Memory.open(path)` is a file that many processes may use at once. It
    belongs to one model, one norm and one input shape, fixed by the first entry. It holds raw inputs: see
    docs/guarantees.md.

    Args:
        policy: "inherit", "abstain" (the paper's Algorithm 2) or "worst-case" (its reporting rule).
        prefer: what a region that must make room keeps: most "volume", or the largest inscribed "ball".
        lifetime: probability with which any of the promises ever admitted may be wrong. Certificates must then be made
            for the numbers that `reserve` hands out. By default each certificate has an alpha of its own, and the
            memory adds up the alphas of all that are submitted (`stats`).
    """

    def __init__(self, policy: str = "inherit", *, prefer: Prefer = "volume", lifetime: float | None = None) -> None:
        if policy not in POLICIES:
            raise ArgumentError(
                f"expected policy to be one of {', '.join(POLICIES)}, got {policy!r}; a memory that stays is "
                "Memory.open('memory.sqlite')"
            )
        self._start(partial(store_of(None), None), policy, prefer, lifetime)

    @classmethod
    def open(
        cls,
        place: str | Path,
        policy: str | None = None,
        *,
        prefer: Prefer = "volume",
        lifetime: float | None = None,
        read_only: bool = False,
    ) -> Memory:
        """Open the memory at a place; it is created if it does not exist.

        Args:
            place: the path of a file, or postgresql://USER@HOST/DATABASE?memory=NAME.
            policy: how conflicts are settled, fixed when the memory is created (default: inherit); another one is
                refused while it holds promises.
            prefer: what a region that must make room keeps: most "volume", or the largest inscribed "ball".
            lifetime: as in `Memory`, fixed when the memory is created.
            read_only: for lookups; nothing is created or changed, and nothing is admitted.
        """
        if place is None:  # Memory() is one that ends with the process; a variable that is not set is a mistake
            raise ArgumentError("expected a path or URL for the memory, got None")
        memory = cls.__new__(cls)
        memory._start(partial(store_of(place), str(place), read_only=read_only), policy, prefer, lifetime)
        return memory

    @staticmethod
    def exists(place: str | Path) -> bool:
        """Whether there is a memory at a place; an error if none can be created there."""
        return store_of(place).exists(str(place))

    def _start(self, store: Callable[[str], Store], policy: str | None, prefer: Prefer, lifetime: float | None) -> None:
        if prefer not in ("volume", "ball"):
            raise ArgumentError(f"prefer: expected 'volume' or 'ball', got {prefer!r}")
        if isinstance(lifetime, bool) or not isinstance(lifetime, Real | None):
            raise ArgumentError(f"lifetime: expected a number in (0, 1), got {lifetime!r}")
        wanted = None if policy is None else policy_named(policy).name
        self._prefer = prefer
        self._ledger = Ledger(store(wanted or "inherit"), wanted)
        self._policy = policy_named(self._ledger.head.policy)
        if lifetime is not None and lifetime != self._ledger.head.lifetime:
            with self._ledger.transaction(write=True):
                spending.begin(self._ledger, float(lifetime))

    @property
    def place(self) -> str | None:
        """Its path, or its URL without a password; None if it ends with the process."""
        return self._ledger.store.place

    @property
    def path(self) -> Path | None:
        """The file; None if there is none."""
        return None if self.place is None or "://" in self.place else Path(self.place)

    @property
    def policy(self) -> str:
        """How conflicts are settled."""
        return self._policy.name

    @property
    def generation(self) -> str:
        """A unique name of its content, which changes with a reset."""
        return self._head().generation

    @property
    def prefer(self) -> Prefer:
        """What a region that must make room keeps."""
        return self._prefer

    @property
    def lifetime(self) -> float | None:
        """Probability with which any promise, of all ever admitted, may be wrong; None if each has its own alpha."""
        return self._head().lifetime

    @property
    def submissions(self) -> int:
        """How many certificates were submitted, abstentions included; the same one again does not count."""
        return self._head().submissions

    def _head(self) -> Head:
        with self._ledger.transaction(write=False):
            return self._ledger.head

    def attempts(self, x: Any) -> int:
        """How often votes about exactly this input were submitted, or numbers reserved for it."""
        return self.attempts_all([x])[0]

    def attempts_all(self, x: Iterable[Any]) -> list[int]:
        """`attempts` for several inputs, in one transaction. x: `b x *shape`."""
        points = [checked_point(array) for array in x]
        if not points:
            return []
        with self._ledger.transaction(write=False):
            return [spending.attempts(self._ledger, point) for point in points]

    def reserve(self, ids: Sequence[int], seed: int, x: Iterable[Any]) -> int:
        """Reserve numbers, for good, for inputs that are about to be certified; returns the first, the others follow.

        Make certificate number i with `anisocert.bounds.lifetime_alpha(memory.lifetime, i)`; only one with this id,
        seed and input may enter under that number. Call this before any vote is drawn. What is reserved is spent: a
        number that is never used is lost, which is safe. Noise is a function of id and seed: a pair that has a number
        already is refused.

        ids: `b`; with the seed they determine the noise. x: the inputs, `b x *shape`, or one after the other.
        """
        # Before others wait for the transaction to end; and only digests stay in memory.
        inputs = [digest_of_input(checked_point(array)) for array in x]
        if len(inputs) != len(ids) or not inputs:
            raise ArgumentError(f"expected one id per input, at least one, got {len(ids)} ids, {len(inputs)} inputs")
        with self._ledger.transaction(write=True):
            return spending.reserve(self._ledger, ids, seed, inputs)

    def __len__(self) -> int:
        return self._head().entries

    def __bool__(self) -> bool:
        # An empty memory is a memory: `if memory` must be true.
        return True

    def admit(self, certificate: Certificate) -> Certificate:
        """Settle the system's answer to an input, its promise from now on: returns the certificate with a note.

        kept: as proposed; shrunk: smaller, to make room for earlier promises; inherited: an earlier promise covers the
        input, and its class is the answer; abstained: no answer. The first two are stored. If a promise with the same
        id is stored already, it is the answer: inherited, if it rests on different votes.
        """
        return self.admit_all([certificate])[0]

    def admit_all(self, certificates: Iterable[Certificate], probe: Any = None) -> list[Certificate]:
        """Admit certificates in order, all or none, with one flush to disk.

        probe: of their network, as in `expect`; it is checked in the same step, so that no reset can come in between.
        """
        proposals = checked_certificates(certificates)
        with self._ledger.transaction(write=True):
            for model_hash in {proposed.model_hash for proposed in proposals} if probe is not None else ():
                expect(self._ledger, model_hash, probe)
            return [admit(self._ledger, self._policy, self._prefer, proposed) for proposed in proposals]

    def lookup(self, x: Any) -> Certificate | None:
        """The stored promise that covers x, found without evaluating the network; None if there is none.

        Its region is a copy of the stored one around x that lies inside it, or None if x is on the boundary; its id and
        its evidence are those of the stored entry.
        """
        return self.lookup_all([x])[0]

    def lookup_all(self, x: Iterable[Any]) -> list[Certificate | None]:
        """`lookup` for several inputs as of one moment, in one transaction. x: `b x *shape`."""
        ledger, points = self._ledger, [checked_point(array) for array in x]
        if not points:
            return []
        with ledger.transaction(write=False):
            for point in points:
                check_shape(point, ledger.head)
            promises = [covering(ledger, point, ledger.index.near(point)) for point in points]
        return [promise and replace(promise, note=INHERITED) for promise in promises]

    def find(self, id_: int) -> Certificate | None:
        """The stored promise with that id; None if there is none."""
        if isinstance(id_, bool) or not isinstance(id_, Integral):  # 0.7 is the id of nothing
            raise ArgumentError(f"expected an id, a whole number, got {told(id_)}")
        with self._ledger.transaction(write=False):
            return self._ledger.promise_to(int(id_))

    def covers(self, x: Any) -> list[Certificate]:
        """All stored promises whose regions contain x, in order of arrival.

        The region of each is the copy around x that lies inside the stored one, or None if x is on the boundary.
        """
        ledger, point = self._ledger, checked_point(x)
        with ledger.transaction(write=False):
            check_shape(point, ledger.head)
            return all_covering(ledger, point)

    def expect(self, model_hash: str, probe: Any, norm: int | None = None) -> None:
        """Store the network's scores on a probe (`Network.probe`), or compare them with those stored before.

        An error if the memory belongs to a different model, or to one that behaves differently, or to another norm.
        """
        with self._ledger.transaction(write=not self._ledger.store.read_only):
            expect(self._ledger, model_hash, probe, norm)

    def expect_inputs(self, ids: Iterable[int], x_of: Callable[[int], Any]) -> None:
        """Raise an error if a promise has one of these ids for another input. x_of: gives the input of an id."""
        with self._ledger.transaction(write=False):
            for number in ids:
                if (stored := self._ledger.promise_to(int(number))) is not None:
                    check_same_input(stored, checked_point(x_of(number)))

    def copy(self) -> Memory:
        """A temporary memory with the same promises, in which each certificate has its own alpha: for experiments."""
        memory = Memory(self.policy, prefer=self.prefer)
        with self._ledger.transaction(write=False):
            self._ledger.copy_to(memory._ledger, lifetime=None)
        return memory

    def check(self) -> Check:
        """Prove that regions of different classes have no common point, and that each entry follows from its votes."""
        try:
            with self._ledger.transaction(write=False, anew=True):
                return check(self._ledger)
        except BrokenMemoryError as error:
            return Check(0, 0, (), (str(error),))

    def entries(self) -> Iterator[Certificate]:
        """The stored promises in order of arrival."""
        return self._ledger.promises()

    def stats(self) -> Stats:
        """Counts and sizes."""
        with self._ledger.transaction(write=False):
            return stats(self._ledger)

    def export(self, path: str | Path, *, inputs: bool = True, force: bool = False) -> int:
        """Write all entries to an `.npz` file that only its owner may read, and return their number.

        inputs: include the raw inputs. force: even in place of a file that is not an export.
        """
        with self._ledger.transaction(write=False):
            return export(self._ledger, Path(path), inputs, force)

    def reset(self) -> None:
        """Drop all promises, and with them the raw inputs; the next entry may be of a different model."""
        self._ledger.reset()

    def close(self) -> None:
        """Release the file."""
        self._ledger.store.close()

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        raise AnisocertError(
            "a memory cannot be copied or sent to another process: open its file there with Memory.open, and make the "
            "System there, if one was sent"
        )

    def __repr__(self) -> str:
        return f"Memory({self.place or 'of this process'}, policy={self.policy!r})"
