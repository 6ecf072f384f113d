"""The OpenAPI description of the service."""

from typing import Any

from anisocert import __version__
from anisocert.service._question import FLOATS, INPUT, MOST_NUMBERS, OUTPUTS, PARAMETERS, USUAL, WIDE
from anisocert.service._tensors import HEADER_LENGTH

ERRORS = {
    "400": "The request is not what it must be; the message says what was expected.",
    "401": "No key of this service came with the request.",
    "403": "The key lacks a right.",
    "404": "There is no such model, version or page.",
    "408": "The body did not arrive in time.",
    "413": "The body is too long for the key, or has too many inputs for the key or the queue.",
    "415": "The body is compressed.",
    "422": "The network gives an input no scores that can be certified.",
    "429": "Too many inputs, of this key or in the queue: ask again after Retry-After seconds.",
    "431": "The headers are too long.",
    "503": "The service ends or is full, or the network, the memory or the keys failed: ask again after Retry-After.",
    "504": "The answer was not ready in time. Work that has begun goes on, and its promise stays: ask again.",
}
NUMBERS = {"type": "array", "items": {}, "description": "Numbers, flat or nested as the shape says."}
SHAPE = {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 2, "maxItems": 8}
SCHEMAS: dict[str, Any] = {
    "Error": {"type": "object", "required": ["error"], "properties": {"error": {"type": "string"}}},
    "Input": {
        "type": "object", "required": ["name", "datatype", "shape"],
        "properties": {
            "name": {"const": INPUT}, "datatype": {"enum": list(FLOATS)}, "shape": SHAPE, "data": NUMBERS,
            "parameters": {"type": "object", "properties": {"binary_data_size": {"type": "integer"}}},
        },
        "description": "Inputs as the network sees them, `inputs x *shape`: values that float32 holds exactly.",
    },
    "Question": {
        "type": "object", "required": ["inputs"],
        "properties": {
            "id": {"type": "string", "maxLength": 256},
            "inputs": {"type": "array", "minItems": 1, "maxItems": 1, "items": {"$ref": "#/components/schemas/Input"}},
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object", "required": ["name"],
                    "properties": {
                        "name": {"enum": list(OUTPUTS)},
                        "parameters": {"type": "object", "properties": {"binary_data": {"type": "boolean"}}},
                    },
                },
                "description": f"Default: {', '.join(USUAL)}. {' and '.join(WIDE)}: {MOST_NUMBERS} numbers as JSON.",
            },
            "parameters": {
                "type": "object", "additionalProperties": False,
                "properties": {
                    name: {"type": words.split(":")[0], "description": words.split(": ", 1)[1]}
                    for name, words in PARAMETERS.items()
                },
            },
        },
    },
    "Answers": {
        "type": "object", "required": ["model_name", "model_version", "outputs"],
        "properties": {
            "model_name": {"type": "string"}, "model_version": {"type": "string"}, "id": {"type": "string"},
            "outputs": {
                "type": "array",
                "items": {
                    "type": "object", "required": ["name", "datatype", "shape"],
                    "properties": {
                        "name": {"enum": list(OUTPUTS)}, "datatype": {"enum": ["INT64", "FP32", "FP64", "BYTES"]},
                        "shape": {"type": "array", "items": {"type": "integer"}}, "data": {"type": "array"},
                    },
                },
            },
        },
        "description": "; ".join(f"{name} ({kind}): {words}" for name, (kind, words) in OUTPUTS.items()),
    },
}  # fmt: skip


def openapi(name: str) -> dict[str, Any]:
    """The description. name: of the model that is served."""
    model, version = "/v2/models/{name}", "/v2/models/{name}/versions/{version}"
    parameters = [_in_path("name", name), _in_path("version", "the network's hash")]
    paths: dict[str, Any] = {
        "/": _get("A page for people: drop an image, see the answer and its region.", key=False),
        "/docs": _get("This description, for people.", key=False),
        "/openapi.json": _get("This description.", key=False),
        "/examples": _get("Inputs that the page offers."),
        "/memory": _get("Entries of the memory and alpha spent; needs the right operate."),
        "/metrics": _get("Metrics for prometheus; needs the right operate."),
        "/v2": _get("Name, version and extensions of the server.", key=False),
        "/v2/health/live": _get("Whether the server runs.", key=False),
        "/v2/health/ready": _get("Whether it answers; 503 if not.", key=False),
    }
    for path, places in ((model, parameters[:1]), (version, parameters)):
        paths[path] = _get("Inputs and outputs of the model.", key=False) | {"parameters": places}
        paths[f"{path}/ready"] = _get("Whether the model answers; 503 if not.", key=False) | {"parameters": places}
        paths[f"{path}/infer"] = {"post": _infer(), "parameters": places}
    bearer = {"key": {"type": "http", "scheme": "bearer", "description": "A key that `anisocert keys add` has made."}}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "anisocert: answers with certificates", "version": __version__,
            "description": "The Open Inference Protocol v2, over a smoothed classifier and a memory of its promises.",
        },
        "paths": paths, "components": {"schemas": SCHEMAS, "securitySchemes": bearer},
    }  # fmt: skip


def _in_path(name: str, words: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}, "description": words}


def _get(summary: str, key: bool = True) -> dict[str, Any]:
    operation: dict[str, Any] = {"summary": summary, "responses": {"200": {"description": "Yes."}}}
    if key:
        operation |= {"security": [{"key": []}]}
        operation["responses"] |= {code: _error(code) for code in ("401", "403")}
    return {"get": operation}


def _error(code: str) -> dict[str, Any]:
    schema = {"$ref": "#/components/schemas/Error"}
    return {"description": ERRORS[code], "content": {"application/json": {"schema": schema}}}


def _infer() -> dict[str, Any]:
    def of(name: str) -> dict[str, Any]:
        raw = {"schema": {"type": "string", "format": "binary"}}
        return {
            "application/json": {"schema": {"$ref": f"#/components/schemas/{name}"}},
            "application/octet-stream": raw,
        }

    header = {"name": HEADER_LENGTH, "in": "header", "schema": {"type": "integer"},
              "description": "Length of the JSON, where raw tensors follow it."}  # fmt: skip
    return {
        "summary": "The system's answers to inputs, to which it keeps from then on; or, with lookup, what is promised.",
        "security": [{"key": []}], "parameters": [header], "requestBody": {"required": True, "content": of("Question")},
        "responses": {"200": {"description": "One answer per input.", "content": of("Answers")}}
        | {code: _error(code) for code in ERRORS},
    }  # fmt: skip
