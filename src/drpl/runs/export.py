"""A trained model as one file that runs without this package: ONNX, or torch's .pt2.

Preprocessing and softmax are inside: uint8 images [N, C, H, W] of the training size (or float
vectors [N, D]) go in, probabilities [N, classes] come out, for any N.
"""

import copy
import io
import json
import logging
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from drpl.data.images import TensorImages
from drpl.errors import ConfigError, RunError, did_you_mean
from drpl.files import write_atomic
from drpl.networks.build import Builder
from drpl.randomness import rng
from drpl.runs import model
from drpl.runs.model import Model

SHOWN = 32  # samples that the original and the export are compared on
TOLERANCE = 1e-4  # between their probabilities
ABOUT = "about.json"  # in a .pt2: what ONNX has in its metadata

About = dict[str, str]
Function = Callable[[Tensor], Tensor]  # samples -> probabilities


class Deployed(nn.Module):
    """Preprocessing, network and softmax in one."""

    def __init__(self, trained: Model) -> None:
        super().__init__()
        net = copy.deepcopy(trained.net)
        # The exporters want weights in the plain order; training has the channels last.
        self.net = net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.transform = trained.transform
        self.eval()

    def forward(self, samples: Tensor) -> Tensor:
        """uint8 [N, C, H, W] or float [N, D] -> probabilities [N, classes]."""
        no_draws = samples[:, :0]
        logits: Tensor = self.net(self.transform(samples, no_draws))
        return logits.softmax(1)


def export(
    run: Path | str, path: Path | str, to: str = "onnx", network: Builder | None = None
) -> float:
    """Write the model of a run as a file of the format `to`.

    Random samples are shown to the model and to the file; the largest difference of their
    probabilities is given back, and a file that departs by more than 0.0001 is not written.
    `network` is the function that built the network, if it is the user's own.
    """
    if to not in FORMATS:
        raise ConfigError(f"unknown format {to!r}; {did_you_mean(to, FORMATS)}")
    form, trained = FORMATS[to], model.load(run, network)
    samples = _make_samples(trained, SHOWN)
    with _silence():
        any_number = {0: torch.export.Dim("batch", min=1)}
        program = torch.export.export(
            Deployed(trained), (samples[:2],), dynamic_shapes=(any_number,)
        )
        content = form.write(program, _describe(trained))
        after = form.read(content)(samples)
    difference = float((after - trained.predict(TensorImages(samples))).abs().max())
    if not difference <= TOLERANCE:  # NaN too
        raise RunError(
            f"the {to} file would depart from the model by {difference:.2g} in its probabilities, "
            f"and at most {TOLERANCE:g} is allowed; nothing was written"
        )
    write_atomic(Path(path), content)
    return difference


def _make_samples(trained: Model, count: int) -> Tensor:
    """Random samples of the kind that the model was trained on."""
    draws = rng("samples to compare")
    if len(trained.shape) == 3:
        size = (count, *trained.shape)
        return torch.randint(0, 256, size, dtype=torch.uint8, generator=draws)
    mean, std = torch.tensor(trained.transform.mean), torch.tensor(trained.transform.std)
    return mean + std * torch.randn(count, *trained.shape, generator=draws)


def _describe(trained: Model) -> About:
    """What a user of the file should know, as texts."""
    images = len(trained.shape) == 3
    return {
        "classes": json.dumps(trained.classes, ensure_ascii=False),
        "input": "uint8 images [N, C, H, W], 0..255" if images else "float32 vectors [N, D]",
        "shape": json.dumps(trained.shape),
        "output": "probabilities [N, classes]",
        "mean": json.dumps(trained.transform.mean),  # for information: applied inside
        "std": json.dumps(trained.transform.std),
        "crop": json.dumps(trained.transform.crop),
    }


@contextmanager
def _silence() -> Iterator[None]:
    """Without what the exporters say about themselves."""
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


@dataclass(frozen=True)
class Format:
    """A kind of file: from a program to its bytes, and from the bytes to a function."""

    write: Callable[[ExportedProgram, About], bytes]
    read: Callable[[bytes], Function]


def write_onnx(program: ExportedProgram, about: About) -> bytes:
    """ONNX, with `about` as its metadata."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
        import onnxscript  # noqa: F401
    except ImportError as error:
        raise ConfigError(
            f"exporting to ONNX needs the package {error.name}, which is not here; "
            "install it with: pip install 'drpl[onnx]'"
        ) from None
    names = {"input_names": ["input"], "output_names": ["probabilities"]}
    made = torch.onnx.export(program, dynamo=True, verbose=False, **names)  # type: ignore[arg-type]
    assert made is not None  # noqa: S101  it is None only without dynamo
    made.model.metadata_props.update(about)
    content: bytes = made.model_proto.SerializeToString()
    return content


def read_onnx(content: bytes) -> Function:
    """The function in an ONNX file, run by onnxruntime."""
    from onnxruntime import InferenceSession

    session = InferenceSession(content, providers=["CPUExecutionProvider"])
    return lambda samples: torch.from_numpy(session.run(None, {"input": samples.numpy()})[0])


def write_torch(program: ExportedProgram, about: About) -> bytes:
    """torch's own format, with `about` as a JSON file inside."""
    buffer = io.BytesIO()
    torch.export.save(program, buffer, extra_files={ABOUT: json.dumps(about)})
    return buffer.getvalue()


def read_torch(content: bytes) -> Function:
    """The function in a .pt2 file."""
    function = torch.export.load(io.BytesIO(content)).module()

    @torch.no_grad()
    def run(samples: Tensor) -> Tensor:
        probs: Tensor = function(samples)
        return probs

    return run


FORMATS = {"onnx": Format(write_onnx, read_onnx), "torch": Format(write_torch, read_torch)}
