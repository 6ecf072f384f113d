"""A request for answers, read and checked; what is wrong with it is said without repeating its values."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from anisocert.errors import ArgumentError
from anisocert.inputs import exact_float32
from anisocert.service._tensors import DATATYPES, MOST_JSON, NUMBER, TensorError, from_bytes, from_json, split
from anisocert.service.errors import RefusedError

INPUT: Final = "x"
# What each output is, by its name and datatype; those after `note` only if they are asked for.
OUTPUTS: Final = {
    "prediction": ("INT64", "the class, or -1: no answer"),
    "radius": ("FP64", "radius of the largest ball, in the noise's norm, inside the promised region"),
    "proxy_radius": ("FP64", "radius of the ball of the region's volume"),
    "note": ("BYTES", "kept, shrunk, inherited or abstained; none: no promise covers the input (lookup only)"),
    "region": ("FP64", "semi-axes of the region around the input, 0 where nothing is promised: inputs x *shape"),
    "theta": ("FP32", "noise level of each value, 0 where it is not told: inputs x *shape"),
    "evidence": ("BYTES", "votes, bounds and probabilities, as a JSON object"),
    "sentence": ("BYTES", "what may be quoted, and whom it protects"),
}
USUAL: Final = ("prediction", "radius", "proxy_radius", "note")
WIDE: Final = ("region", "theta")  # as many numbers as the inputs have
MOST_NUMBERS: Final = MOST_JSON // NUMBER  # of an answer in JSON, which is as long as a question may be
PARAMETERS: Final = {
    "lookup": "boolean: answer only from promises; nothing is certified",
    "n": "integer: votes per input, at most the server's; needs the right plan",
    "alpha": "number: probability with which a certificate may be wrong, at most the server's; needs the right plan",
    "timeout": "integer: microseconds to wait for the answer, at most the server's; 0: as long as the server does",
    "binary_data_output": "boolean: outputs as bytes",
}
FLOATS: Final = tuple(name for name in DATATYPES if name.startswith("FP"))
LONGEST_ID = 256
LONGEST = 1 << 31  # of one dimension: whole numbers in JSON may have thousands of digits


@dataclass(frozen=True, eq=False)
class Question:
    """x: `inputs x *shape`. outputs: those wanted, and whether as bytes. n, alpha, timeout (seconds): if given."""

    x: NDArray[np.float32] = field(repr=False)
    id: str = ""
    outputs: Mapping[str, bool] = field(default_factory=lambda: dict.fromkeys(USUAL, False))
    lookup: bool = False
    n: int | None = None
    alpha: float | None = None
    timeout: float | None = None

    @property
    def own_plan(self) -> bool:
        """Whether it asks for another plan than the service's."""
        return self.n is not None or self.alpha is not None

    @property
    def answer_bytes(self) -> int:
        """What the answer takes, at most: that part of it which grows with the size of inputs."""
        wide = [(DATATYPES[OUTPUTS[name][0]], raw) for name, raw in self.outputs.items() if name in WIDE]
        return self.x.size * sum(np.dtype(kind).itemsize if raw else NUMBER for kind, raw in wide)


def read_question(body: bytes, header_length: str | None, most_inputs: int) -> Question:
    """The question in the body of a request."""
    try:
        head, raw = split(body, header_length)
        identity = head.get("id", "")
        if not isinstance(identity, str) or len(identity) > LONGEST_ID:
            raise TensorError(f"expected id as a text of at most {LONGEST_ID} characters, got something else")
        parameters = _parameters(head)
        outputs = _outputs(head, parameters.get("binary_data_output", False))
        x = _input(head, raw, most_inputs)
        if (numbers := x.size * sum(outputs.get(name) is False for name in WIDE)) > MOST_NUMBERS:
            raise TensorError(
                f"expected at most {MOST_NUMBERS} numbers of {' and '.join(WIDE)} as JSON, got a question for "
                f"{numbers}: ask for them with binary_data, or about fewer inputs at once"
            )
        return Question(
            x, identity, outputs, parameters.get("lookup", False), parameters.get("n"), parameters.get("alpha"),
            parameters.get("timeout", 0) / 1e6 or None,
        )  # fmt: skip
    except (TensorError, ArgumentError) as error:
        raise RefusedError(400, str(error)) from error


def _input(head: dict[str, Any], raw: bytes, most_inputs: int) -> NDArray[np.float32]:
    tensors = head.get("inputs")
    if (
        not isinstance(tensors, list)
        or len(tensors) != 1
        or not isinstance(tensors[0], dict)
        or tensors[0].get("name") != INPUT
    ):
        raise TensorError(f"expected inputs with one tensor, named {INPUT}, got others")
    (tensor,) = tensors
    datatype, shape = tensor.get("datatype"), tensor.get("shape")
    if datatype not in FLOATS:
        raise TensorError(f"expected datatype among {', '.join(FLOATS)}, in the network's own units, got another")
    if not isinstance(shape, list) or not 2 <= len(shape) <= 8 or not all(map(_length, shape)):
        raise TensorError(f"expected shape of {INPUT} as (inputs, *shape of one), whole numbers >= 1, got another")
    if shape[0] > most_inputs:
        raise RefusedError(413, f"expected at most {most_inputs} inputs per request, got {shape[0]}")
    size = _object(tensor, "parameters").get("binary_data_size")
    if (size is None) == ("data" not in tensor):
        raise TensorError("expected either data or the parameter binary_data_size with the input, got both or neither")
    if size is None:
        if raw:
            raise TensorError(f"expected nothing behind the JSON without binary_data_size, got {len(raw)} bytes")
        return exact_float32(INPUT, from_json(tensor["data"], datatype, shape))
    if type(size) is not int or size != len(raw):
        raise TensorError(f"expected binary_data_size {len(raw)}, what follows the JSON, got another")
    return exact_float32(INPUT, from_bytes(raw, datatype, shape))


def _length(n: object) -> bool:
    return type(n) is int and 0 < n <= LONGEST


def _parameters(head: dict[str, Any]) -> dict[str, Any]:
    parameters = _object(head, "parameters")
    if not set(parameters) <= set(PARAMETERS):
        raise TensorError(f"expected parameters among {', '.join(PARAMETERS)}, got another")
    checks: dict[str, tuple[str, Callable[[Any], bool]]] = {
        "lookup": ("true or false", lambda v: isinstance(v, bool)),
        "n": ("a whole number >= 1", lambda v: type(v) is int and v >= 1),
        "alpha": ("a number in (0, 1)", lambda v: type(v) in (int, float) and 0 < v < 1),
        "timeout": ("whole microseconds >= 0", lambda v: type(v) is int and 0 <= v < 1 << 53),
        "binary_data_output": ("true or false", lambda v: isinstance(v, bool)),
    }
    for name, value in parameters.items():
        words, check = checks[name]
        if not check(value):
            raise TensorError(f"expected parameter {name} as {words}, got something else")
    if "alpha" in parameters:
        parameters["alpha"] = float(parameters["alpha"])
    return parameters


def _outputs(head: dict[str, Any], raw: bool) -> dict[str, bool]:
    requested = head.get("outputs")
    if requested is None or requested == []:
        return dict.fromkeys(USUAL, raw)
    names = tuple(OUTPUTS)  # a list may be asked for, which no dictionary takes
    if not isinstance(requested, list) or not all(
        isinstance(output, dict) and output.get("name") in names for output in requested
    ):
        raise TensorError(f"expected outputs among {', '.join(OUTPUTS)}, got others")
    outputs = dict[str, bool]()
    for output in requested:
        wanted = _object(output, "parameters").get("binary_data", raw)
        if not isinstance(wanted, bool) or output["name"] in outputs:
            raise TensorError("expected each output once, with the parameter binary_data true or false, got others")
        outputs[output["name"]] = wanted
    return outputs


def _object(fields: dict[str, Any], name: str) -> dict[str, Any]:
    value = fields.get(name, {})
    if not isinstance(value, dict):
        raise TensorError(f"expected {name} as an object, got something else")
    return dict(value)
