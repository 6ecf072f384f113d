"""Whether promises in the plane can all be kept, found out without the memory's own geometry, from its tables alone.

Two regions are apart if some line separates them. Which one is guessed in floats; that it does is proven in fractions.
"""

from fractions import Fraction

import numpy as np

TURNS = np.linspace(0, np.pi, 720, endpoint=False)


def look(server, schema, norm, proposed, told):
    """What is wrong with the tables of a memory, and counts. told: id, class, note, centre and semi-axes in hex.

    proposed: certificates by id; None where whoever looks does not know them.
    """
    with server.connect() as admin:
        rows = admin.execute(
            f"SELECT number, id, prediction, center, axes FROM {schema}.entries ORDER BY number"
        ).fetchall()
        submissions = admin.execute(f"SELECT count(*), count(DISTINCT evidence) FROM {schema}.submissions").fetchone()
    ids = [row[1] for row in rows]
    classes = np.array([row[2] for row in rows])
    centers = np.array([np.frombuffer(row[3], "<f4").astype(float) for row in rows])
    axes = np.array([np.broadcast_to(np.frombuffer(row[4], "<f8"), 2) for row in rows])
    wrong = []
    if [row[0] for row in rows] != list(range(1, len(rows) + 1)) or len(set(ids)) != len(ids):
        wrong.append("numbers have gaps, or ids come twice")
    if proposed is not None and submissions != (len(proposed), len(proposed)):
        wrong.append(f"{submissions} submissions of {len(proposed)} certificates")
    pairs = meeting_boxes(centers, axes)
    pairs = pairs[classes[pairs[:, 0]] != classes[pairs[:, 1]]]
    wrong += _apart(pairs, ids, centers, axes, norm)
    wrong += _sampled(pairs, ids, centers, axes, norm)
    wrong += [] if proposed is None else _as_proposed(rows, centers, axes, proposed)
    wrong += _standing(told, dict(zip(ids, range(len(ids)), strict=True)), classes, centers, axes, norm)
    return wrong, {"entries": len(rows), "submissions": submissions[0], "pairs_proven_apart": len(pairs)}


def meeting_boxes(centers, axes):
    """Pairs of regions whose bounding boxes may meet; the others are apart."""
    found = []
    for i in range(1, len(centers)):
        gaps = np.abs(centers[:i] - centers[i]) - (axes[:i] + axes[i]) * (1 + 1e-9)
        found += [(i, int(j)) for j in np.flatnonzero((gaps <= 0).all(1))]
    return np.array(found, int).reshape(-1, 2)


def _apart(pairs, ids, centers, axes, norm):
    for i, j in pairs:
        if not separated(centers[i], axes[i], centers[j], axes[j], norm):
            yield f"regions of inputs {ids[i]} and {ids[j]}, of different classes, are not proven apart"


def separated(center, half, other_center, other_half, norm):
    """Whether a line is proven to separate two closed regions."""
    if norm == 1:  # two convex polygons: a line along an edge of one of them does, if any
        edges = [(a[1], sign * a[0]) for a in (half, other_half) for sign in (1, -1)]
        return any(_proven(edge, center, half, other_center, other_half, norm) for edge in edges)
    return _proven(
        _best_direction(center - other_center, half, other_half), center, half, other_center, other_half, norm
    )


def _best_direction(gap, half, other_half):
    """Along which two ellipses are furthest apart, in floats."""

    def margin(turns):
        normals = np.stack([np.cos(turns), np.sin(turns)], 1)
        return (
            np.abs(normals @ gap)
            - np.linalg.norm(normals * half, axis=1)
            - np.linalg.norm(normals * other_half, axis=1)
        )

    turns, width = TURNS, TURNS[1]
    for _ in range(7):  # each time a hundredth of the width
        best = turns[int(np.argmax(margin(turns)))]
        turns, width = best + np.linspace(-1, 1, 201) * width, width / 100
    return np.array([np.cos(best), np.sin(best)])


def _proven(normal, center, half, other_center, other_half, norm):
    """Exactly: the distance of the centres along a normal exceeds the reach of both regions."""
    n, a, b = ([Fraction(float(value)) for value in values] for values in (normal, half, other_half))
    gap = abs(
        sum(k * (Fraction(float(c)) - Fraction(float(o))) for k, c, o in zip(n, center, other_center, strict=True))
    )
    if norm == 1:
        return gap > sum(max(abs(k) * one for k, one in zip(n, axes, strict=True)) for axes in (a, b))
    p, q = (sum((k * one) ** 2 for k, one in zip(n, axes, strict=True)) for axes in (a, b))
    rest = gap**2 - p - q  # gap > sqrt(p) + sqrt(q)
    return rest > 0 and rest**2 > 4 * p * q


def gauge(center, half, points, norm):
    return np.linalg.norm((points - center) / half, norm, axis=1)


def boundary(center, half, norm):
    """Points on it, the corners included."""
    turns = np.linspace(0, 2 * np.pi, 256, endpoint=False)
    circle = np.stack([np.cos(turns), np.sin(turns)], 1)
    return center + half * circle / np.linalg.norm(circle, norm, axis=1)[:, None]


def _sampled(pairs, ids, centers, axes, norm):
    """The same once more by looking: no point of one region's boundary lies in the other."""
    for i, j in pairs:
        for one, other in ((i, j), (j, i)):
            if (gauge(centers[other], axes[other], boundary(centers[one], axes[one], norm), norm) < 1 - 1e-9).any():
                yield f"a point of the region of input {ids[one]} lies in that of input {ids[other]}"
                break


def _as_proposed(rows, centers, axes, proposed):
    for (_, id_, prediction, *_), center, half in zip(rows, centers, axes, strict=True):
        one = proposed[id_]
        if (
            one.prediction != prediction
            or not np.array_equal(one.region.center, center)
            or (half > one.region.axes).any()
        ):
            yield f"input {id_} has a promise that nobody proposed"


def _standing(told, places, classes, centers, axes, norm):
    """Every acknowledged answer: stored bit by bit, or inside a stored region of its class."""
    for number, prediction, note, center, half in told:
        number, prediction = int(number), int(prediction)
        where = None if center == "-" else (np.frombuffer(bytes.fromhex(center)), np.frombuffer(bytes.fromhex(half)))
        if note in ("kept", "shrunk"):
            at = places.get(number)
            if at is None or classes[at] != prediction:
                yield f"input {number} was acknowledged as class {prediction}, and is not stored so"
            elif not (np.array_equal(centers[at], where[0]) and np.array_equal(axes[at], where[1])):
                yield f"input {number} was acknowledged with another region"
        elif note == "inherited" and where is not None:
            homes = np.flatnonzero((classes == prediction) & (np.abs(centers - where[0]) <= axes).all(1))
            if not any(_inside(centers[at], axes[at], *where, norm) for at in homes):
                yield f"input {number} inherited a region that no stored one of its class holds"


def _inside(center, half, inner_center, inner_half, norm):
    """Whether a region holds another: for cross-polytopes exactly, at the corners; for ellipses to nine digits."""
    if norm == 2:
        return bool((gauge(center, half, boundary(inner_center, inner_half, norm), norm) <= 1 + 1e-9).all())
    exact = [[Fraction(float(value)) for value in values] for values in (center, half, inner_center, inner_half)]
    c, a, d, b = exact
    for k in range(2):
        for sign in (1, -1):
            corner = [value + (sign * b[k] if i == k else 0) for i, value in enumerate(d)]
            if sum(abs(x - y) / z for x, y, z in zip(corner, c, a, strict=True)) > 1:
                return False
    return True
