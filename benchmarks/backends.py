"""Votes on a CPU in one run: the engine in float32, as it is and compiled, and other back ends for its network.

    python benchmarks/backends.py small-cnn resnet18 resnet18-paper
    python benchmarks/backends.py tv:mobilenet_v3_large --n 32 --repeats 3

onnxruntime runs the exported network in float32, and the file of `anisocert quantize` in 8-bit integers; OpenVINO, if
it is installed, runs the same two files. All count the same votes, noise included, with the same rows per call, in one
process with one thread and by turns; processor time, medians with quartiles. The ratio is to the quicker of the
engine's two forms. What 8 bits do to the votes of a trained network, `anisocert quantize` prints.
"""

import argparse
import tempfile
import time
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import torch
from networks import network_of, noisy_batch

from anisocert import Gaussian, Numerics
from anisocert.engine import Network, Query, Stage, count_votes
from anisocert.models import load, quantize

SIGMA = 0.25
CALIBRATED = 256  # inputs; of 224x224, an eighth


def candidates(model, shape, classes, rows, folder):
    """Networks that count votes, by name."""
    x = noisy_batch(CALIBRATED if shape[-1] <= 64 else CALIBRATED // 8, shape, SIGMA)
    files = {"float32": folder / "float32.onnx", "int8": folder / "int8.onnx"}
    torch.onnx.export(
        model, (x[:2],), files["float32"], dynamo=False, input_names=["x"], output_names=["scores"],
        dynamic_axes={"x": {0: "b"}, "scores": {0: "b"}},
    )  # fmt: skip
    quantize(model, x, files["int8"])
    networks = {
        name: Network(model, classes, "cpu", Numerics("float32", compiled, rows))
        for name, compiled in (("engine", False), ("engine, compiled", True))
    }
    for name, file in files.items():
        networks[f"onnxruntime {name}"] = Network(load(file)[0], classes, "cpu", Numerics("float32", False, rows))
    for name, file in files.items() if find_spec("openvino") else ():
        networks[f"openvino {name}"] = Network(
            openvino(file), classes, "cpu", Numerics("float32", False, rows), model_id=name
        )
    return networks


def openvino(file):
    import openvino

    settings = {"INFERENCE_NUM_THREADS": 1, "INFERENCE_PRECISION_HINT": "f32"}
    request = openvino.Core().compile_model(str(file), "CPU", settings).create_infer_request()
    return lambda x: torch.from_numpy(request.infer({0: x.numpy()})[0].copy())


def seconds(network, shape, n):
    """Of processor time, to count n votes of one input."""
    x = torch.rand(1, *shape, generator=torch.Generator().manual_seed(1))
    query = Query(network, Gaussian(SIGMA), x, [0], 0)
    started = time.process_time()
    list(count_votes(query, torch.full((1, *[1] * x.dim()), SIGMA), Stage.ESTIMATE, [n]))
    return time.process_time() - started


def measure(name, args):
    model, shape, classes = network_of(name)
    with tempfile.TemporaryDirectory() as folder:
        networks = candidates(model, shape, classes, args.rows, Path(folder))
        rows = {key: network.fit(shape, 1) for key, network in networks.items()}
        n = args.n or 5 * max(rows.values())
        times = {key: [] for key in networks}
        for repeat in range(args.repeats + 1):
            for key, network in networks.items():
                spent = seconds(network, shape, n)
                if repeat:  # the first one warms up
                    times[key].append(spent * 1e6 / n)
    base = min(np.median(times[key]) for key in ("engine", "engine, compiled"))
    for key, spent in times.items():
        low, middle, high = np.quantile(spent, (0.25, 0.5, 0.75))
        print(
            f"{name:24} {key:20} {rows[key]:6} {middle:9.2f} [{low:.2f} to {high:.2f}] {base / middle:6.2f}", flush=True
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", default=["small-cnn", "resnet18", "resnet18-paper"])
    parser.add_argument("--rows", type=int, help="per call; default: the engine's choice")
    parser.add_argument("--n", type=int, help="votes per measurement; default: five calls")
    parser.add_argument("--repeats", type=int, default=11)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("network                  run by                 rows  ms per 1,000 votes [quartiles]  times the engine")
    for name in args.networks:
        measure(name, args)


if __name__ == "__main__":
    main()
