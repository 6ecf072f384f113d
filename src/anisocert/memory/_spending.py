"""The probability that promises are wrong: how often the smoothed classifier was asked, and at which alpha.

Every submission counts, even one that abstains or is not stored: its votes might have certified it, wrongly, and it is
the same votes that decide what is stored.

Where one alpha covers all that a memory will ever promise, number i has alpha/(i(i+1)) of it, which over all i
adds up to alpha. A number is given to an input, an id and a seed before their votes are drawn, and is spent from then
on: another attempt needs another number, and other noise, as what it asks for may be chosen by the votes of the first.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from anisocert.bounds import lifetime_alpha
from anisocert.certificate import Certificate
from anisocert.errors import ArgumentError
from anisocert.memory._evidence import digest, digest_of_draw, digest_of_input, digest_of_noise
from anisocert.memory._float_rows import Floats
from anisocert.memory._head import Head
from anisocert.memory._ledger import Ledger
from anisocert.rounding import up


def spent(head: Head) -> float:
    """How much of a lifetime's alpha belongs to the numbers that were given out."""
    return 0.0 if head.lifetime is None else head.lifetime * (head.numbers / (head.numbers + 1))


def begin(ledger: Ledger, alpha: float) -> None:
    """Use one alpha for everything from now on; refused if anything was counted differently."""
    if not 0 < alpha < 1:
        raise ArgumentError(f"lifetime: expected alpha in (0, 1), got {alpha}")
    head = ledger.head
    if head.lifetime == alpha:
        return
    if head.submissions or head.numbers:
        has = "each with an alpha of its own" if head.lifetime is None else f"with {head.lifetime:g} for all"
        place = ledger.store.place or "this memory"
        raise ArgumentError(f"lifetime: expected {alpha:g} from the first submission on, got {place}, {has}")
    ledger.append("numbers", [], lifetime=alpha)


@dataclass(frozen=True)
class Account:
    """The digests by which the account must know an entry. evidence: of its votes; name: of its id, seed and input."""

    evidence: bytes
    name: bytes
    input: bytes
    noise: bytes
    alpha: float

    @classmethod
    def of(cls, stored: Certificate) -> Account:
        """The digests of a stored promise."""
        assert stored.region is not None
        center, number, seed = stored.region.center, stored.id, stored.seed
        input_ = digest_of_input(center)
        names = digest_of_draw(number, seed, input_), input_, digest_of_noise(number, seed)
        return cls(digest(stored, center), *names, float(stored.alpha))


def reserve(ledger: Ledger, ids: Sequence[int], seed: int, inputs: Sequence[bytes]) -> int:
    """The first of several numbers, which are spent from now on. inputs: their names."""
    lifetime, place = ledger.head.lifetime, ledger.store.place or "this memory"
    if lifetime is None:
        raise ArgumentError(f"expected a memory with a lifetime alpha to reserve from, got {place} without")
    first = ledger.head.numbers + 1
    rows: list[tuple[bytes, bytes, bytes, float]] = []
    drawn = set[bytes]()
    for i, (id_, input_) in enumerate(zip(ids, inputs, strict=True), first):
        noise = digest_of_noise(id_, seed)
        if noise in drawn or ledger.find("numbers", "noise", noise):
            raise ArgumentError(
                f"id {id_}: expected noise that has no number yet, got seed {seed}, under which {place} has given it "
                "one: another attempt must not begin with the votes of the first, nor another input with its noise: "
                "use a different seed (--seed) or id"
            )
        drawn.add(noise)
        rows.append((digest_of_draw(id_, seed, input_), input_, noise, float(lifetime_alpha(lifetime, i))))
    ledger.append("numbers", rows)
    return first


def submit(ledger: Ledger, proposed: Certificate, point: Floats) -> None:
    """Count a certificate of the input `point`, once. Refused if it needs a number and has none."""
    evidence, alpha = digest(proposed, point), float(proposed.alpha)
    if ledger.find("submissions", "evidence", evidence):
        return
    number = None if ledger.head.lifetime is None else _number(ledger, proposed, point)
    total = float(up(ledger.head.alphas + alpha))  # never less than the sum
    ledger.append("submissions", [(evidence, digest_of_input(point), alpha, number)], alphas=total)


def attempts(ledger: Ledger, point: Floats) -> int:
    """How often votes about an input were submitted, or numbers given for them."""
    name = digest_of_input(point)
    unreserved = [row for row in ledger.find("submissions", "input", name) if row["reserved"] is None]
    return len(unreserved) + len(ledger.find("numbers", "input", name))


def _number(ledger: Ledger, proposed: Certificate, point: Floats) -> int:
    """The number that a certificate was made for: among those with its name, the one with its alpha."""
    name = digest_of_draw(proposed.id, proposed.seed, digest_of_input(point))
    numbers: dict[float, int] = {row["alpha"]: row["number"] for row in ledger.find("numbers", "name", name)}
    number = numbers.get(float(proposed.alpha))
    if number is None:
        got = f"the alphas {', '.join(map(repr, numbers))}" if numbers else "no number"
        raise ArgumentError(
            f"certificate {proposed.id}: expected one made for a number of this memory, as its lifetime alpha of "
            f"{ledger.head.lifetime:g} is for all that it ever promises, got alpha {proposed.alpha!r} where its input, "
            f"id and seed have {got}: certify with --lifetime, or call Memory.reserve before the votes are drawn"
        )
    if ledger.find("submissions", "reserved", number):
        raise ArgumentError(
            f"certificate {proposed.id}: expected the votes that number {number} was used for, got others: each "
            "attempt needs a number of its own, from Memory.reserve"
        )
    return number


def problems(ledger: Ledger, stored: Sequence[Account]) -> Iterator[str]:
    """What is wrong with the account. stored: the digests by which it must know each entry."""
    head = ledger.head
    given: dict[int, tuple[bytes, bytes, bytes, float]] = {}
    drawn = set[bytes]()
    for number, name, input_, noise, alpha, _ in ledger.rows("numbers"):
        given[number] = (name, input_, noise, alpha)
        if noise in drawn:
            yield f"number {number} is for noise that has another number"
        drawn.add(noise)
        if head.lifetime is not None and alpha != lifetime_alpha(head.lifetime, number):
            yield f"number {number} has alpha {alpha!r}, which is not its part of {head.lifetime:g}"
    total, submissions = 0.0, {}
    for _, evidence, input_, alpha, number, _ in ledger.rows("submissions"):
        total, submissions[evidence] = float(up(total + alpha)), (input_, alpha, number)
        if head.lifetime is not None and (number not in given or given[number][3] != alpha):
            yield f"a submission of alpha {alpha!r} has number {number}, which belongs to another"
    if total != head.alphas:
        yield f"its submissions add up to alpha {total!r}, {head.alphas!r} was counted"
    for entry in stored:
        counted = submissions.get(entry.evidence)
        if counted is None or counted[:2] != (entry.input, entry.alpha):
            yield f"an entry of alpha {entry.alpha!r} was never submitted"
        elif head.lifetime is not None and given.get(counted[2]) != (entry.name, entry.input, entry.noise, entry.alpha):
            yield f"an entry of alpha {entry.alpha!r} has number {counted[2]}, given to another input, id or seed"
