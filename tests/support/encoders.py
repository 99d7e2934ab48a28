"""Tiny models in ONNX, folders of small pictures, and `drpl` in a process of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from PIL import Image

Side = int | str
FLOAT = TensorProto.FLOAT


def write_model(
    path: Path,
    shape: Sequence[Side] = ("n", 3, 16, 16),
    nodes: Sequence[tuple[str, dict[str, Any]]] = (("GlobalAveragePool", {}), ("Flatten", {})),
    kind: int = FLOAT,
    metadata: Mapping[str, str] | None = None,
    inputs: int = 1,
) -> Path:
    """A model that does one thing after the other to its images; uint8 ones become floats first."""
    steps = [*([("Cast", {"to": FLOAT})] if kind != FLOAT else []), *nodes]
    made = [
        helper.make_node(name, [f"x{k}"], [f"x{k + 1}"], **given)
        for k, (name, given) in enumerate(steps)
    ]
    taken = [helper.make_tensor_value_info("x0", kind, shape)]
    taken += [helper.make_tensor_value_info(f"other{k}", FLOAT, [1]) for k in range(1, inputs)]
    given = helper.make_tensor_value_info(f"x{len(steps)}", FLOAT, None)
    graph = helper.make_graph(made, "tiny", taken, [given])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    helper.set_model_props(model, dict(metadata or {}))
    onnx.save(model, str(path))
    return path


def draw_folder(root: Path, count: int, classes: Sequence[str] = ("ash", "birch")) -> Path:
    """Small pictures that are all different, dealt out to the folders of classes."""
    for k in range(count):
        path = root / classes[k % len(classes)] / f"{k:05}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        colours = np.array([[[k % 251, k // 251, 7], [k * 7 % 256, 90, 60]]], np.uint8)
        Image.fromarray(colours).save(path)
    return root


# Parts are small and each takes a while, so that a kill comes between two of them.
SLOWED = """
import sys, time
from drpl.encoders import encode
from drpl.encoders.encoder import Encoder
from drpl.__main__ import main
encode.PART, seconds = int(sys.argv[1]), float(sys.argv[2])
run = Encoder.encode
def slowly(self, pixels):
    time.sleep(seconds)
    return run(self, pixels)
Encoder.encode = slowly
sys.argv = ["drpl", *sys.argv[3:]]
main()
"""
# No connection to anywhere.
CUT_OFF = """
import socket, sys
def refuse(*_):
    raise AssertionError("somebody wants to reach the network")
socket.socket.connect = socket.socket.connect_ex = refuse
from drpl.__main__ import main
sys.argv = ["drpl", *sys.argv[1:]]
main()
"""


def start(code: str, *words: object, where: Path) -> "subprocess.Popen[str]":
    """Python code with arguments in a process of its own, begun in the folder `where`."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, words)],
        cwd=where,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    """What it says, when it has ended well."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out
