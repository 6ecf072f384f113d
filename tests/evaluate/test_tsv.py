"""Files as the published scripts write them, and what can go wrong with them on the way."""

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anisocert.errors import ArgumentError
from anisocert.evaluate import OWN, results_of
from anisocert.evaluate._tsv import HEADERS, Line, read_tsv, rounded_down, seconds, write_tsv
from anisocert.evaluate.exchange import export_run, import_tsv
from anisocert.runs import read_run
from anisocert.verify.verifying import verify

# As certify.py of Cohen et al. prints them: "{}\t{}\t{}\t{:.3}\t{}\t{}", the time as str(datetime.timedelta).
COHEN = """idx	label	predict	radius	correct	time
0	3	3	0.978	1	0:02:31.238689
20	8	8	1.3e-05	1	0:02:28
40	8	-1	0.0	0	0:00:29.734734
60	0	6	0.0504	0	1 day, 0:00:01.500000
"""
DDRS = """idx	label	predict	radius	correct	sigma	time
0	3	3	0.51	1	0.272	0:00:07.1
40	8	-1	0.0	0	0.25	0:00:07.2
"""
ANCER = """idx	label	predict	radius	radius_proxy	correct	min_sigma	time
0	3	3	0.61	0.85	1	0.271	12.25
20	8	8	3e-2	4.5E-1	1	0.2	9
"""


KNOWN = {"norm": "l2", "method": "fixed"}


@pytest.fixture
def write(tmp_path: Path):
    def put(text: str, name: str = "noise_0.25/test/sigma_0.25") -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, newline="")
        return path

    return put


def test_cohen(write):
    found = read_tsv(write(COHEN))
    assert (found.format, found.cut) == ("cohen", False)
    assert found.lines == (
        Line(0, 3, 3, 0.978, True, 151.238689),
        Line(20, 8, 8, 1.3e-05, True, 148.0),
        Line(40, 8, -1, 0.0, False, 29.734734),
        Line(60, 0, 6, 0.0504, False, 86401.5),
    )


def test_ddrs_and_ancer(write):
    found = read_tsv(write(DDRS))
    assert found.format == "ddrs"
    assert found.lines[0] == Line(0, 3, 3, 0.51, True, 7.1, sigma=0.272)
    found = read_tsv(write(ANCER))
    assert found.format == "ancer"
    assert found.lines[1] == Line(20, 8, 8, 0.03, True, 9.0, radius_proxy=0.45, min_sigma=0.2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("12.5", 12.5), ("1.25e1", 12.5), ("0:00:12.500000", 12.5), ("0:00:12", 12.0), ("2:03:04.5", 7384.5),
        ("1 day, 0:00:00", 86400.0), ("3 days, 1:00:00.25", 262800.25), (" 0:01:00 ", 60.0), ("30:00:00", 108000.0),
    ],
)  # fmt: skip
def test_both_time_formats(text, expected):
    assert seconds(text) == expected


@pytest.mark.parametrize("text", ["", "soon", "0:61:00", "-1", "1:2", "0:00:00:01"])
def test_what_is_no_time(text):
    with pytest.raises(ArgumentError, match="time"):
        seconds(text)


@pytest.mark.parametrize("keep", range(len(COHEN) - 1, len(COHEN) - 40, -1))
def test_a_file_cut_at_any_place_gives_the_lines_before(write, keep):
    whole, found = read_tsv(write(COHEN)), read_tsv(write(COHEN[:keep], "cut.tsv"))
    complete = COHEN[:keep].count("\n") - 1
    assert found.lines[:complete] == whole.lines[:complete]
    # Of the line that was cut, nothing is believed but what came before the cut's column, the time.
    assert [line.radius for line in found.lines] == [line.radius for line in whole.lines[: len(found.lines)]]
    assert len(found.lines) + found.cut <= len(whole.lines)


@pytest.mark.parametrize("lost", ["opic", "otropic", "\tisotropic", "2\tisotropic"])
def test_a_line_cut_inside_our_columns_is_left_out(tmp_path, lost):
    write_tsv(tmp_path / "a.tsv", "cohen", [row(), row(idx=4)])
    text = (tmp_path / "a.tsv").read_text()
    (tmp_path / "cut.tsv").write_text(text.removesuffix(f"{lost}\n"))
    found = read_tsv(tmp_path / "cut.tsv")
    assert ([line.idx for line in found.lines], found.cut) == ([3], True)
    assert found.said == {"norm": "l2", "method": "isotropic"}


def test_a_last_line_that_may_be_cut_inside_a_radius_is_left_out(write):
    """1.3e-05 would be 1.3. Descendants of the published codes may have the columns in another order."""
    lines = [line.split("\t") for line in COHEN.splitlines()[:3]]
    text = "\n".join("\t".join([*line[:3], *line[4:], line[3]]) for line in lines) + "\n"
    whole, cut = read_tsv(write(text)), read_tsv(write(text.removesuffix("e-05\n"), "cut.tsv"))
    assert [line.radius for line in whole.lines] == [0.978, 1.3e-05]
    assert ([line.radius for line in cut.lines], cut.cut) == ([0.978], True)


def test_other_short_files(write):
    header = "\t".join(HEADERS["cohen"])
    assert read_tsv(write(header + "\n")).lines == ()
    assert read_tsv(write(COHEN + "80\t1\n")).cut
    assert len(read_tsv(write(COHEN.replace("\n", "\r\n"))).lines) == 4
    assert len(read_tsv(write(COHEN + "\n\n")).lines) == 4
    again = COHEN + "\n".join(COHEN.splitlines()[:3]).replace("0:02", "0:03") + "\n"
    assert read_tsv(write(again)).lines == read_tsv(write(COHEN)).lines


def test_other_columns_and_orders(write):
    """Descendants of the published scripts add some."""
    text = "radius\tpABar\tidx\tpredict\tlabel\tcorrect\ttime\n0.5\t0.9\t7\t1\t1\tTrue\t0:00:01\n"
    assert read_tsv(write(text)).lines == (Line(7, 1, 1, 0.5, True, 1.0),)


def test_lines_come_in_order_of_idx(write):
    lines = COHEN.splitlines()
    shuffled = "\n".join([lines[0], lines[3], lines[1], lines[4], lines[2]]) + "\n"
    assert read_tsv(write(shuffled)).lines == read_tsv(write(COHEN)).lines


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("0.978", "wide"), "line 2: expected radius as a number, got 'wide'"),
        (("0.978", "nan"), "line 2: expected radius as a number of at most 1e"),
        (("0.978", "1e308"), "line 2: expected radius as a number of at most 1e"),
        (("0:02:31.238689", "nan"), "line 2: expected time as a number of at most 1e"),
        (("0:02:31.238689", "999999999999 days, 1:00:00"), "line 2: expected a time, got"),
        (("20\t8", "9" * 5000 + "\t8"), "line 3: expected idx as a whole number of at most 18 digits"),
        (("0.978", "-0.1"), "line 2: expected radii that are finite and not negative"),
        (("20\t8", "x\t8"), "line 3: expected idx as a whole number of at most 18 digits, got 'x'"),
        (("-1\t0.0\t0", "-1\t0.1\t0"), "line 4: expected radius 0 with an abstention"),
        (("-1\t0.0\t0", "-1\t0.0\t1"), "line 4: expected correct 0"),
        (("6\t0.0504\t0", "6\t0.0504\t1"), "line 5: expected correct 0 with label 0 and predict 6, got 1"),
        (("-1\t0.0\t0", "-2\t0.0\t0"), "predict >= -1"),
        (("60\t0\t6", "60\t-5\t6"), "line 5: expected .* label >= -1, got 60, 6 and -5"),
        (("0.0\t0\t0:00:29.734734", "0.0"), "line 4: expected 6 columns, got 4"),
        (("1\t0:02:28", "maybe\t0:02:28"), "expected correct 0 or 1"),
        (("60\t0\t6\t0.0504", "20\t8\t6\t0.0504"), "line 5: expected the result that idx 20 has above"),
        (("idx\tlabel", "number\tlabel"), "expected the columns of one of"),
    ],
)
def test_lines_that_contradict_themselves_are_named(write, change, words):
    assert change[0] in COHEN
    with pytest.raises(ArgumentError, match=words):
        read_tsv(write(COHEN.replace(*change, 1)))


@pytest.mark.parametrize(("text", "noise"), [(DDRS, "0.272"), (ANCER, "0.271")])
def test_noise_is_not_negative(write, text, noise):
    """A run of it could not be read."""
    with pytest.raises(ArgumentError, match="line 2: expected sigmas of at least 0, got"):
        read_tsv(write(text.replace(noise, f"-{noise}")))


def test_files_of_another_kind(write, tmp_path):
    with pytest.raises(ArgumentError, match="empty"):
        read_tsv(write(""))
    (tmp_path / "x").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="other bytes"):
        read_tsv(tmp_path / "x")


@given(value=st.floats(0, 1e6, exclude_min=True, allow_subnormal=True), digits=st.integers(1, 18))
def test_rounding_is_down_and_by_less_than_a_unit_of_the_last_digit(value, digits):
    text = rounded_down(value, digits)
    exact = Fraction(text)
    assert exact <= Fraction(value)
    assert float(text) <= value
    assert Fraction(value) - exact < exact * Fraction(10) ** (1 - digits)
    assert float(rounded_down(value, None)) == value


def row(**changes):
    known = {
        "idx": 3, "label": 1, "prediction": 1, "radius": 0.12996, "proxy_radius": 0.29999999, "correct": True,
        "theta_min": 0.25, "theta_max": 0.25, "seconds": 1.5, "norm": "l2", "method": "isotropic",
    }  # fmt: skip
    return known | changes


def test_written_radii_are_rounded_down(tmp_path):
    assert write_tsv(tmp_path / "a.tsv", "ancer", [row(), row(idx=4, radius=9.996e-7)], digits=3) == 2
    assert (tmp_path / "a.tsv").read_text() == (
        "idx\tlabel\tpredict\tradius\tradius_proxy\tcorrect\tmin_sigma\ttime\tnorm\tmethod\n"
        "3\t1\t1\t0.129\t0.299\t1\t0.250\t0:00:01.500000\tl2\tisotropic\n"
        "4\t1\t1\t9.99E-7\t0.299\t1\t0.250\t0:00:01.500000\tl2\tisotropic\n"
    )
    assert read_tsv(tmp_path / "a.tsv").lines[1].radius == 9.99e-7
    write_tsv(tmp_path / "a.tsv", "cohen", [row(prediction=-1, radius=0.0, proxy_radius=0.0, correct=False)])
    assert "3\t1\t-1\t0.0\t0\t0:00:01.500000\tl2\tisotropic\n" in (tmp_path / "a.tsv").read_text()


def test_what_cannot_be_written(tmp_path):
    with pytest.raises(ArgumentError, match="use format ancer"):
        write_tsv(tmp_path / "a.tsv", "ddrs", [row(theta_max=0.5)])
    with pytest.raises(ArgumentError, match="expected proxy_radius of every example for format ancer, got none of 3"):
        write_tsv(tmp_path / "a.tsv", "ancer", [row(proxy_radius=None)])
    with pytest.raises(ArgumentError, match="expected format of cohen, ddrs, ancer, got 'latex'"):
        write_tsv(tmp_path / "a.tsv", "latex", [row()])
    with pytest.raises(ArgumentError, match="digits"):
        write_tsv(tmp_path / "a.tsv", "cohen", [row()], digits=0)
    assert not (tmp_path / "a.tsv").exists()


def test_an_imported_run_is_a_run(write, tmp_path):
    file = write(COHEN)
    found = import_tsv(file, tmp_path / "run", **KNOWN, sigma=0.25, alpha=0.001, n=100_000, data="cifar10")
    assert len(found.lines) == 4
    run = read_run(tmp_path / "run")
    rows = run.table.to_pylist()
    assert [r["radius"] for r in rows] == [r["proxy_radius"] for r in rows] == [0.978, 1.3e-05, 0.0, 0.0504]
    assert rows[0] | {"idx": 0, "prediction": 3, "correct": True, "method": "fixed", "norm": "l2"} == rows[0]
    assert (rows[0]["sigma"], rows[0]["theta_min"], rows[0]["theta_max"], rows[0]["alpha"]) == (0.25, 0.25, 0.25, 0.001)
    for name in ("gap", "p_a", "p_b", "top_votes", "votes", "bound", "seed", "reason", "num_classes"):
        assert {r[name] for r in rows} == {None}
    described = json.loads((tmp_path / "run" / "run.json").read_text())
    assert (described["n"], described["data"], described["model_hash"]) == (100_000, "cifar10", None)
    assert described["imported"]["file"] == "sigma_0.25"
    assert len(described["imported"]["sha256"]) == 64
    assert run.thetas == {}
    results = results_of(run)
    assert results.accuracy([0.0, 0.5]).tolist() == [0.5, 0.25]
    checked = verify(tmp_path / "run")
    assert checked.ok
    assert "imported" in checked.undone[0]
    assert checked.rows == 0
    (tmp_path / "run" / "certificates.parquet").write_bytes(b"other")
    assert not verify(tmp_path / "run").ok


def test_what_import_fills_in(write, tmp_path):
    import_tsv(write(ANCER), tmp_path / "ancer", norm="l2")
    rows = read_run(tmp_path / "ancer").table.to_pylist()
    assert (rows[0]["proxy_radius"], rows[0]["theta_min"], rows[0]["theta_max"]) == (0.85, 0.271, None)
    assert (rows[0]["method"], rows[0]["sigma"]) == ("anisotropic", None)
    import_tsv(write(DDRS), tmp_path / "ddrs", norm="l1")
    rows = read_run(tmp_path / "ddrs").table.to_pylist()
    assert (rows[0]["proxy_radius"], rows[0]["theta_geomean"], rows[0]["norm"]) == (0.51, 0.272, "l1")
    import_tsv(write(COHEN), tmp_path / "unknown", norm="l2", method="anisotropic")
    assert read_run(tmp_path / "unknown").table.to_pylist()[0]["proxy_radius"] is None


def test_what_radii_are_of_and_whom_they_protect_is_not_guessed(write, tmp_path):
    """An l1 radius taken for l2, or an input's own noise for one that serves all, would promise far too much."""
    for text in (COHEN, DDRS, ANCER):
        with pytest.raises(ArgumentError, match="expected --norm l2 or --norm l1, the norm of the radii"):
            import_tsv(write(text), tmp_path / "run", method="fixed")
    with pytest.raises(ArgumentError, match=r"expected --method, as .* does not say it: fixed if one noise served all"):
        import_tsv(write(COHEN), tmp_path / "run", norm="l2")
    write_tsv(tmp_path / "ours.tsv", "cohen", [row(norm="l1"), row(idx=4, norm="l1")])
    with pytest.raises(ArgumentError, match=r"expected norm l1, which .* says of itself, got l2"):
        import_tsv(tmp_path / "ours.tsv", tmp_path / "run", norm="l2")
    import_tsv(tmp_path / "ours.tsv", tmp_path / "run")
    assert results_of(read_run(tmp_path / "run")).protects == OWN
    assert {(one["norm"], one["method"]) for one in read_run(tmp_path / "run").rows} == {("l1", "isotropic")}
    write_tsv(tmp_path / "mixed.tsv", "cohen", [row(), row(idx=4, method="fixed")])
    with pytest.raises(ArgumentError, match=r"line 3: expected .*isotropic.* as in the lines above, got .*fixed"):
        read_tsv(tmp_path / "mixed.tsv")


@pytest.mark.parametrize("text", [DDRS, ANCER])
def test_noise_of_each_input_is_not_that_of_one_classifier(write, tmp_path, text):
    """Else every radius would be certified for everyone."""
    with pytest.raises(ArgumentError, match=r"expected one sigma in .*, as method fixed is one classifier"):
        import_tsv(write(text), tmp_path / "run", **KNOWN)
    assert not (tmp_path / "run").exists()


def test_fixed_noise_is_the_files_own(write, tmp_path):
    """Up to float32, and to digits that an export left out."""
    text = DDRS.replace("0.272", "0.25")
    for sigma in (0.5, 0.2):
        with pytest.raises(ArgumentError, match=rf"expected sigma 0\.25, which .* says of itself, got {sigma}"):
            import_tsv(write(text), tmp_path / "run", **KNOWN, sigma=sigma)
    assert not (tmp_path / "run").exists()
    import_tsv(write(text.replace("0.25", "0.119")), tmp_path / "run", **KNOWN, sigma=0.12)
    import_tsv(write(DDRS), tmp_path / "isotropic", norm="l2", sigma=0.5)  # where a search may have begun


def test_an_abstention_may_leave_the_noise_out(write, tmp_path):
    import_tsv(write(DDRS.replace("\t0.25\t", "\t0.0\t")), tmp_path / "run", **KNOWN)
    assert {row["method"] for row in read_run(tmp_path / "run").rows} == {"fixed"}


def test_what_is_not_imported(write, tmp_path):
    file = write(COHEN)
    import_tsv(file, tmp_path / "run", **KNOWN)
    with pytest.raises(ArgumentError, match="without a run"):
        import_tsv(file, tmp_path / "run", **KNOWN)
    with pytest.raises(ArgumentError, match="at least one result"):
        import_tsv(write(COHEN.splitlines()[0], "empty.tsv"), tmp_path / "empty")
    with pytest.raises(ArgumentError, match="expected norm to be one of l2, l1, got 'linf'"):
        import_tsv(file, tmp_path / "norm", norm="linf", method="fixed")
    assert not (tmp_path / "empty").exists()


@pytest.mark.parametrize("name", ["theta", "unfinished"])
def test_import_removes_nothing_behind_a_link(write, tmp_path, name):
    run, victim = tmp_path / "run", write("precious", "victim/best.safetensors")
    run.mkdir()
    (run / name).symlink_to(victim.parent)
    with pytest.raises(ArgumentError, match=f"{name}, got a link"):
        import_tsv(write(COHEN), run, **KNOWN, force=True)
    assert victim.read_text() == "precious"


@pytest.mark.parametrize("text", [COHEN, DDRS, ANCER])
def test_round_trip(write, tmp_path, text):
    file = write(text)
    form = import_tsv(file, tmp_path / "run", norm="l1", method="isotropic").format
    export_run(read_run(tmp_path / "run"), tmp_path / "out.tsv", form)
    out = read_tsv(tmp_path / "out.tsv")
    assert out == replace(read_tsv(file), said={"norm": "l1", "method": "isotropic"})
    import_tsv(tmp_path / "out.tsv", tmp_path / "again")
    assert {row["norm"] for row in read_run(tmp_path / "again").rows} == {"l1"}
    export_run(read_run(tmp_path / "again"), tmp_path / "out2.tsv", form)
    assert (tmp_path / "out.tsv").read_text() == (tmp_path / "out2.tsv").read_text()


def test_files_of_different_length_are_joined_on_idx(write, tmp_path):
    from anisocert.evaluate import aligned

    import_tsv(write(COHEN), tmp_path / "a", **KNOWN)
    import_tsv(write(DDRS), tmp_path / "b", norm="l2")
    both = aligned([results_of(read_run(tmp_path / name)) for name in "ab"])
    assert [one.ids.tolist() for one in both] == [[0, 40], [0, 40]]
    assert np.array_equal(both[0].radius, [0.978, 0.0])
    assert np.array_equal(both[1].radius, [0.51, 0.0])
