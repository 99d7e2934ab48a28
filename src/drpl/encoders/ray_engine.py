"""Encoding on a Ray cluster: `drpl encode --engine ray`.

Workers decode and encode parts of the files; whoever asked for them adds what comes back to the
store. The machines must see the files, and the working folder, under the same names.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from drpl.data.images import Broken, FileImages, Images, list_files
from drpl.encoders.encoder import Encoder
from drpl.errors import ConfigError, DrplError

Made = tuple[Tensor, list[Tensor], Broken]  # indices, vectors for each view, what cannot be read


def encode_views(encoder: Encoder, pixels: Tensor, views: Sequence[bool]) -> list[Tensor]:
    """The vectors of images as they are (False) and of their mirror images (True)."""
    if not len(pixels):
        return [torch.empty(0, encoder.dim) for _ in views]
    return [encoder.encode(pixels.flip(3) if mirrored else pixels) for mirrored in views]


def encode_on_cluster(
    load: Callable[[], Encoder],
    encoder: Encoder,
    images: Images,
    parts: Sequence[Tensor],
    views: Sequence[bool],
) -> Iterator[Made]:
    """Parts of image files as they are done, on the cluster at RAY_ADDRESS or on a local one.

    A part whose worker was lost is done again by another one.
    """
    files = [list_files(images, part) for part in parts]
    if None in files:
        raise ConfigError(
            "the engine ray spreads image files, and these images are in arrays; leave it out"
        )
    try:
        os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")  # it says much that is no trouble
        import ray
        import ray.data
    except ImportError:
        raise ConfigError(
            "the engine ray needs a package that is not here: pip install 'drpl[ray]'"
        ) from None
    if not parts:
        return
    own = not ray.is_initialized()
    if own:
        address = os.environ.get("RAY_ADDRESS")
        more = {} if address else {"include_dashboard": False}
        ray.init(address or "local", log_to_driver=False, logging_level="error", **more)
    logging.getLogger("ray.data").setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.print_on_execution_start = False
    try:
        rows = [{"part": k, "files": names} for k, names in enumerate(files)]
        most = max(1, int(ray.cluster_resources().get("CPU", 1)))
        made = ray.data.from_items(rows, override_num_blocks=len(rows)).map(
            _Worker,
            fn_constructor_args=(load, os.getcwd(), encoder.weights, list(views)),  # noqa: PTH109
            num_cpus=1,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(most, len(rows))),
        )
        for row in made.iter_rows():
            yield _unpack(row, parts, views, encoder)
    finally:
        if own:
            ray.shutdown()


def _unpack(
    row: dict[str, Any], parts: Sequence[Tensor], views: Sequence[bool], encoder: Encoder
) -> Made:
    """What a worker sent, as its part of the images."""
    if row["error"]:
        raise ConfigError(row["error"])
    index = parts[row["part"]]
    broken = {int(index[int(at)]): why for at, why in json.loads(row["broken"]).items()}
    vectors = np.frombuffer(row["vectors"], np.float32).reshape(len(views), -1, encoder.dim)
    return index, [torch.from_numpy(view.copy()) for view in vectors], broken


class _Worker:
    """One of the processes that decode and encode."""

    def __init__(
        self, load: Callable[[], Encoder], home: str, weights: str, views: list[bool]
    ) -> None:
        os.chdir(home)  # so that relative paths mean the same everywhere
        torch.set_num_threads(1)  # each has one core
        self.views, self.error = views, ""
        try:
            self.encoder = load()
            if self.encoder.weights != weights:
                self.error = f"{self.encoder.name} has other weights on another machine"
        except DrplError as error:
            self.error = str(error)

    def __call__(self, row: dict[str, Any]) -> dict[str, Any]:
        """A part of the files, given by their paths, as bytes."""
        answer = {"part": row["part"], "error": self.error, "vectors": b"", "broken": "{}"}
        if self.error:
            return answer
        files = FileImages(list(row["files"]), self.encoder.size, 3)
        try:
            pixels, broken = files.attempt(torch.arange(len(files)))
            vectors = torch.stack(encode_views(self.encoder, pixels, self.views))
        except DrplError as error:
            return answer | {"error": str(error)}
        return answer | {"vectors": vectors.numpy().tobytes(), "broken": json.dumps(broken)}
