"""What a request may be: read exactly, or refused without repeating its values."""

import json

import numpy as np
import pytest

from anisocert.service import _tensors
from anisocert.service._question import MOST_NUMBERS, USUAL, WIDE, read_question
from anisocert.service._tensors import MOST_JSON, PIECE, from_bytes, joined, split, texts_from_bytes
from anisocert.service.errors import RefusedError

X = np.random.default_rng(0).normal(size=(2, 1, 3, 3)).astype(np.float32)


def asked(data=None, raw=b"", **changes):
    """(body, length of its JSON) of a question, with changes to its input and to the whole."""
    one = {
        "name": "x",
        "datatype": "FP32",
        "shape": list(X.shape),
        "data": X.ravel().tolist() if data is None else data,
    }
    one |= changes.pop("input", {})
    one = {name: value for name, value in one.items() if value is not ...}
    text = json.dumps({"inputs": [one]} | changes).encode()
    return text + raw, str(len(text)) if raw else None


def test_json_and_bytes_give_the_same_floats():
    for body, length in (
        asked(),
        asked(X.tolist()),
        asked(..., X.tobytes(), input={"parameters": {"binary_data_size": X.nbytes}}),
        asked(
            ..., X.astype("<f8").tobytes(), input={"datatype": "FP64", "parameters": {"binary_data_size": 2 * X.nbytes}}
        ),
    ):
        question = read_question(body, length, 8)
        assert question.x.dtype == np.float32
        np.testing.assert_array_equal(question.x, X)
        assert dict(question.outputs) == dict.fromkeys(USUAL, False)


def test_whole_numbers_of_json_are_floats_as_javascript_writes_them():
    assert read_question(*asked([0, 1] * 9), 8).x.sum() == 9


def test_parameters_and_outputs():
    body, _ = asked(
        id="7", parameters={"lookup": True, "n": 50, "alpha": 0.01, "timeout": 2_500_000, "binary_data_output": True},
        outputs=[{"name": "radius"}, {"name": "region", "parameters": {"binary_data": False}}],
    )  # fmt: skip
    question = read_question(body, None, 8)
    assert (question.id, question.lookup, question.n, question.alpha, question.timeout) == ("7", True, 50, 0.01, 2.5)
    assert question.outputs == {"radius": True, "region": False}


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"data": [0.1] * 18}, "float32 holds exactly"),
        ({"data": [1.0] * 17}, "expected data as 18 numbers"),
        ({"data": [[1.0] * 9] * 2}, "expected data as 18 numbers"),
        ({"data": [True] * 18}, "expected data as 18 numbers"),
        ({"data": ["1"] * 18}, "expected data as 18 numbers"),
        ({"data": [None] * 18}, "expected data as 18 numbers"),
        ({"data": [10**400] * 18}, "expected data as 18 numbers"),
        ({"data": [1e39] * 18}, "finite x"),
        ({"data": [[1.0], [1.0, 2.0]]}, "expected data as 18 numbers"),
        ({"data": [0.5, True] * 9}, "expected data as 18 numbers"),
        ({"data": []}, "expected data as 18 numbers"),
        ({"data": [[[[1.0] * 3] * 3], [[[1.0] * 3] * 2 + [3]]]}, "expected data as 18 numbers"),
        ({"data": 3.0}, "expected data as 18 numbers"),
        ({"input": {"datatype": "INT64"}}, "datatype among FP16, FP32, FP64"),
        ({"input": {"datatype": ["FP32"]}}, "datatype among"),
        ({"input": {"name": "image"}}, "named x"),
        ({"input": {"shape": [-1, 9]}}, "shape of x"),
        ({"input": {"shape": [18]}}, "shape of x"),
        ({"input": {"shape": [2, 3, True, 3]}}, "shape of x"),
        ({"input": {"shape": [1] * 9}}, "shape of x"),
        ({"input": {"parameters": {"binary_data_size": 72}}}, "both or neither"),
        ({"input": {"parameters": 3}}, "parameters as an object"),
        ({"input": {"data": ...}}, "both or neither"),
        ({"parameters": {"lookup": 1}}, "lookup as true or false"),
        ({"parameters": {"n": 0}}, "n as a whole number"),
        ({"parameters": {"n": True}}, "n as a whole number"),
        ({"parameters": {"alpha": 1}}, "alpha as a number in"),
        ({"parameters": {"timeout": -1}}, "timeout as whole"),
        ({"parameters": {"votes": 5}}, "parameters among lookup"),
        ({"parameters": []}, "parameters as an object"),
        ({"outputs": [{"name": "secret"}]}, "outputs among prediction"),
        ({"outputs": [{"name": ["note"]}]}, "outputs among prediction"),
        ({"outputs": [{"name": "note"}] * 2}, "each output once"),
        ({"outputs": 3}, "outputs among"),
        ({"id": 3}, "id as a text"),
        ({"id": "x" * 257}, "id as a text"),
        ({"inputs": []}, "one tensor, named x"),
        ({"inputs": {}}, "one tensor, named x"),
    ],
)
def test_what_is_wrong_is_said(change, words):
    with pytest.raises(RefusedError, match=words) as refused:
        read_question(*asked(**change), 8)
    assert refused.value.status == 400


@pytest.mark.parametrize(
    ("body", "length"),
    [
        (b"", None), (b"[]", None), (b"{", None), (b'{"inputs": NaN}', None), (b"\xff\xfe", None),
        (b"[" * 200_000, None), (b"{}", "3"), (b"{}", "-1"), (b"{}", "1e3"), (b"{}", "9" * 5000), (b"{}", "\u0663"),
        (b"1" * 100_000, None),
    ],
)  # fmt: skip
def test_a_body_that_is_no_json_object(body, length):
    with pytest.raises(RefusedError) as refused:
        read_question(body, length, 8)
    assert refused.value.status == 400


@pytest.mark.parametrize("size", [71, 73, -1, True, "72", 1 << 70])
def test_bytes_must_be_as_many_as_said(size):
    body, length = asked(..., X.tobytes(), input={"parameters": {"binary_data_size": size}})
    with pytest.raises(RefusedError, match="binary_data_size"):
        read_question(body, length, 8)


def test_a_shape_that_only_claims_to_be_large_takes_no_memory():
    body, length = asked(..., b"1234", input={"shape": [8, 1 << 31, 1 << 31], "parameters": {"binary_data_size": 4}})
    with pytest.raises(RefusedError, match="bytes for FP32 of this shape"):
        read_question(body, length, 8)


@pytest.mark.parametrize("length", [10**4000, 1 << 40, 0, -1, True, 2.0, "2"])
def test_lengths_that_no_input_has(length):
    body, _ = asked(input={"shape": [2, *[length] * 7]})
    with pytest.raises(RefusedError, match="expected shape of x") as refused:
        read_question(body, None, 8)
    assert refused.value.status == 400


@pytest.mark.parametrize("number", [2**53 + 1, -(2**64) - 1, 10**400])
def test_whole_numbers_that_would_be_rounded(number):
    with pytest.raises(RefusedError, match=r"expected whole numbers that float64 holds|expected data as"):
        read_question(*asked([number, *[0] * 17]), 8)
    assert read_question(*asked([2**60, *[0] * 17]), 8).x.max() == 2**60


def test_texts_that_numpy_would_widen_take_no_memory():
    """An array of all of them would be of 2,000,000 x 1,000,000 characters."""
    body, length = asked(["x" * 2_000_000, *["y"] * 1_000_000])
    with pytest.raises(RefusedError, match="expected data as 18 numbers"):
        read_question(body, length, 8)


def test_long_json_is_refused_before_it_is_parsed():
    with pytest.raises(RefusedError, match="send tensors as binary data"):
        read_question(b"[" + b"[]," * (3 << 20) + b"[]]", None, 8)


def test_an_answer_in_json_is_no_longer_than_a_question():
    """However long its numbers are. What is asked for as bytes does not count."""
    fits = MOST_NUMBERS // 2

    def question(numbers, *given):
        raw = bytes(2 * numbers)
        one = {"datatype": "FP16", "shape": [1, numbers], "parameters": {"binary_data_size": len(raw)}}
        return read_question(*asked(..., raw, input=one, outputs=list(given)), 8)

    both = [{"name": name} for name in WIDE]
    longest = len("-2.2250738585072014e-308,")
    assert longest * 2 * fits == question(fits, *both).answer_bytes <= MOST_JSON
    with pytest.raises(RefusedError, match="as JSON, got a question for 335546: ask for them with binary_data") as long:
        question(fits + 1, *both)
    assert long.value.status == 400
    raw = {"parameters": {"binary_data": True}}
    assert question(fits + 1, both[0], both[1] | raw).answer_bytes == (fits + 1) * (25 + 4)
    assert question(fits + 1, both[0] | raw, both[1] | raw).answer_bytes == (fits + 1) * (8 + 4)
    assert question(fits + 1).answer_bytes == 0


def test_others_run_while_an_answer_is_written(monkeypatch):
    """No more numbers are written at once than take a moment, and none is lost between."""
    at_once, write = [], _tensors._json
    monkeypatch.setattr(_tensors, "_json", lambda one: at_once.append(np.size(one)) or write(one))
    for count in (1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE):
        values = np.random.default_rng(0).normal(size=(1, count))
        body, _ = joined({}, {"a": values}, {"a": False}, "outputs")
        assert json.loads(body) == {
            "outputs": [{"name": "a", "shape": [1, count], "datatype": "FP64", "data": values.ravel().tolist()}]
        }
        assert max(at_once) <= PIECE


def test_too_many_inputs():
    with pytest.raises(RefusedError) as refused:
        read_question(*asked(), 1)
    assert refused.value.status == 413


def test_messages_do_not_repeat_inputs():
    secret = 0.123456789
    with pytest.raises(RefusedError) as refused:
        read_question(*asked([secret] * 18), 8)
    assert "0.1234" not in str(refused.value)


def test_tensors_come_back_as_they_were():
    tensors = {"a": X.astype("<f8"), "b": np.arange(3), "note": ["kept", "", "größer"]}
    body, length = joined({"id": "1"}, tensors, dict.fromkeys(tensors, True), "outputs")
    said, raw = split(body, str(length))
    sizes = [one["parameters"]["binary_data_size"] for one in said["outputs"]]
    assert [one["datatype"] for one in said["outputs"]] == ["FP64", "INT64", "BYTES"]
    np.testing.assert_array_equal(from_bytes(raw[: sizes[0]], "FP64", X.shape), X)
    np.testing.assert_array_equal(from_bytes(raw[sizes[0] : sum(sizes[:2])], "INT64", [3]), [0, 1, 2])
    assert texts_from_bytes(raw[sum(sizes[:2]) :]) == tensors["note"]
    body, length = joined({}, tensors, dict.fromkeys(tensors, False), "outputs")
    assert length is None
    np.testing.assert_array_equal(json.loads(body)["outputs"][0]["data"], X.astype("<f8").ravel())
