"""What runs an encoder: onnxruntime on CPUs where it is installed, torch elsewhere."""

import io
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import deepcopy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from filelock import FileLock
from torch import Tensor, nn

from drpl.errors import ConfigError
from drpl.files import explain_write_errors, write_atomic

BATCH = 32  # images at once on a CPU: more only take memory
LARGEST = 512  # on a GPU
NEEDED = ("onnx", "onnxruntime")

Function = Callable[[Tensor], Tensor]


def choose_engine(
    net: nn.Module, name: str, size: int, device: torch.device, cache: Path | None
) -> Function:
    """The fastest way to run the network here on uint8 [B, 3, size, size]."""
    if device.type == "cpu" and all(find_spec(package) for package in NEEDED):
        path = cache / f"{name}-{size}.onnx" if cache else None
        try:
            return run_by_onnxruntime(_convert(net, size, path))
        except ConfigError:
            if path is None:
                raise
            path.unlink(missing_ok=True)  # it was damaged since it was made
            return run_by_onnxruntime(_convert(net, size, path))
    return run_by_torch(net, device)


def run_by_torch(net: nn.Module, device: torch.device) -> Function:
    """In batches that memory allows, on GPUs in half precision by a copy: the network stays."""
    net = net if device.type == "cpu" else deepcopy(net)
    net = net.to(device, memory_format=torch.channels_last)  # type: ignore[call-overload]
    half = torch.bfloat16 if device.type == "cpu" else torch.float16
    fast = device.type == "cuda"

    def run(pixels: Tensor) -> Tensor:
        batch, found = LARGEST if fast else BATCH, []
        k = 0
        while k < len(pixels):
            try:
                part = pixels[k : k + batch].to(device)
                with torch.inference_mode(), torch.autocast(device.type, half, enabled=fast):
                    found.append(net(part).float().cpu())
                k += batch
            except torch.OutOfMemoryError:
                if batch == 1:
                    raise
                batch //= 2
        return torch.cat(found)

    return run


def run_by_onnxruntime(content: bytes | str) -> Function:
    """A model in ONNX with one input, in small batches."""
    session = open_session(content)
    (given,) = session.get_inputs()

    def run(pixels: Tensor) -> Tensor:
        parts = [
            session.run(None, {given.name: part.contiguous().numpy()})[0]
            for part in pixels.split(BATCH)
        ]
        return torch.cat([torch.from_numpy(part) for part in parts])

    return run


def open_session(content: bytes | str) -> Any:
    """A session with as many threads as torch has."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = torch.get_num_threads()
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    options.log_severity_level = 3
    try:
        return onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"onnxruntime cannot run this model: {reason}") from error


def _convert(net: nn.Module, size: int, path: Path | None) -> bytes:
    """The network as ONNX; converting takes seconds, so it is kept at `path`."""
    if path is None:
        return _export(net, size)
    with explain_write_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(f"{path}.lock"):  # another process may just be at it
            if not path.is_file():
                write_atomic(path, _export(net, size))
            return path.read_bytes()


def _export(net: nn.Module, size: int) -> bytes:
    """The network as ONNX for any number of images."""
    example, made = torch.zeros(2, 3, size, size, dtype=torch.uint8), io.BytesIO()
    with silence():
        # Not by way of torch.export, which takes thirty times as long for the same graph.
        torch.onnx.export(
            net,
            (example,),
            made,  # type: ignore[arg-type]  # files in memory are allowed too
            dynamo=False,
            input_names=["pixels"],
            dynamic_axes={"pixels": {0: "images"}},
        )
    return made.getvalue()


@contextmanager
def silence() -> Iterator[None]:
    """Without what torch's exporters say about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
