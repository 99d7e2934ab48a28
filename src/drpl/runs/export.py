"""A trained model as one file that runs without this package: ONNX, or torch's .pt2.

Preprocessing and softmax are inside: uint8 images [N, C, H, W] of the training size (or float
vectors [N, D]) go in, probabilities [N, classes] come out, for any N. A model of features has its
encoder inside too, and takes images.
"""

import copy
import io
import json
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.export import ExportedProgram

from drpl.data.images import TensorImages
from drpl.encoders.engine import silence
from drpl.errors import ConfigError, RunError
from drpl.files import write_atomic
from drpl.networks.build import Builder
from drpl.randomness import rng
from drpl.registry import find
from drpl.runs import model
from drpl.runs.model import Model

SHOWN = 32  # samples that the original and the export are compared on
TOLERANCE = 1e-4  # between their probabilities
ABOUT = "about.json"  # in a .pt2: what ONNX has in its metadata

About = dict[str, str]
Function = Callable[[Tensor], Tensor]  # samples -> probabilities


class Deployed(nn.Module):
    """Encoder if there is one, preprocessing, network and softmax in one."""

    def __init__(self, trained: Model) -> None:
        super().__init__()
        net = copy.deepcopy(trained.net)
        # The exporters want weights in the plain order; training has the channels last.
        self.net = net.to(memory_format=torch.contiguous_format)  # type: ignore[call-overload]
        self.transform = trained.transform
        self.encoder, self.mirrored = None, False
        if trained.encoding and trained.encoder:
            if trained.encoder.net is None:
                raise ConfigError(
                    f"the encoder {trained.encoder.name} is a file that only onnxruntime can run, "
                    "so it cannot be part of the export"
                )
            self.encoder, self.mirrored = trained.encoder.net, trained.encoding.mirrored
        self.eval()

    def forward(self, samples: Tensor) -> Tensor:
        """uint8 [N, C, H, W] or float [N, D] -> probabilities [N, classes]."""
        if self.encoder:
            vectors: Tensor = self.encoder(samples)
            if self.mirrored:
                vectors = (vectors + self.encoder(samples.flip(3))) / 2
            samples = vectors
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
    write, read = find("format", to, FORMATS)
    trained = model.load(run, network)
    samples = _make_samples(trained)
    with silence():
        any_number = {0: torch.export.Dim("batch", min=1)}
        program = torch.export.export(
            Deployed(trained), (samples[:2],), dynamic_shapes=(any_number,)
        )
        content = write(program, _describe(trained))
        with torch.no_grad():
            after = read(content)(samples)
    difference = float((after - trained.predict(TensorImages(samples))).abs().max())
    if not difference <= TOLERANCE:  # NaN too
        raise RunError(
            f"the {to} file would depart from the model by {difference:.2g} in its probabilities, "
            f"and at most {TOLERANCE:g} is allowed; nothing was written"
        )
    write_atomic(Path(path), content)
    return difference


def _make_samples(trained: Model) -> Tensor:
    """Random samples of the kind that the model was trained on."""
    draws, size = rng("samples to compare"), (SHOWN, *trained.input_shape)
    if len(trained.input_shape) == 3:
        return torch.randint(0, 256, size, dtype=torch.uint8, generator=draws)
    mean, std = torch.tensor(trained.transform.mean), torch.tensor(trained.transform.std)
    return mean + std * torch.randn(size, generator=draws)


def _describe(trained: Model) -> About:
    """What a user of the file should know, as texts."""
    images = len(trained.input_shape) == 3
    return {
        "classes": json.dumps(trained.classes, ensure_ascii=False),
        "input": "uint8 images [N, C, H, W], 0..255" if images else "float32 vectors [N, D]",
        "shape": json.dumps(trained.input_shape),
        "output": "probabilities [N, classes]",
        "mean": json.dumps(trained.transform.mean),  # for information: applied inside
        "std": json.dumps(trained.transform.std),
        "crop": json.dumps(trained.transform.crop),
    }


def write_onnx(program: ExportedProgram, about: About) -> bytes:
    """ONNX, with `about` as its metadata."""
    try:
        for name in ("onnx", "onnxruntime", "onnxscript"):
            import_module(name)
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
    return torch.export.load(io.BytesIO(content)).module()


# From a program to the bytes of a file, and from the bytes to a function.
FORMATS = {"onnx": (write_onnx, read_onnx), "torch": (write_torch, read_torch)}
