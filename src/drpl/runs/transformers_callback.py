"""A recorder in the Trainer of transformers.

Its callbacks see neither batches nor outputs, so this one hangs two hooks on the model: one takes
the numbers of the samples out of the input, which the model would not accept, the other takes the
logits.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import TrainerCallback

from drpl.errors import ConfigError
from drpl.files import read_arrays, write_arrays

if TYPE_CHECKING:
    from drpl.runs.recorder import Recorder

FILE = "recorder.npz"  # in the folder of a checkpoint


class TransformersCallback(TrainerCallback):
    """Records each training batch, and is saved and loaded with the Trainer's checkpoints."""

    def __init__(self, recorder: "Recorder") -> None:
        self.recorder = recorder
        self._hooks: list[Any] = []
        self._index: Any = None

    def on_train_begin(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Called by the Trainer, also when it goes on from a checkpoint."""
        if state.global_step:
            found = read_arrays(_find_checkpoint(args, state) / FILE)
            tables = {name: torch.from_numpy(table) for name, table in found.items()}
            self.recorder.resume(tables)
        self._remove_hooks()  # of a training that was broken off
        self._hooks = [
            model.register_forward_pre_hook(self._take_index, with_kwargs=True),
            model.register_forward_hook(self._take_logits),
        ]

    def _take_index(self, model: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        self._index = kwargs.pop("index", None)
        if self._index is None and model.training:
            raise ConfigError(
                "a batch has no `index`, the numbers of its samples; give every example one, and "
                "the training arguments remove_unused_columns=False"
            )
        return args, kwargs

    def _take_logits(self, model: Any, args: Any, output: Any) -> None:
        if model.training:
            logits = output["logits"] if hasattr(output, "keys") else output[1]
            self.recorder.record(self._index, logits)

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the Trainer when it has written a checkpoint."""
        state_dict = self.recorder.gather().state_dict()
        if state.is_world_process_zero:
            tables = {name: table.numpy() for name, table in state_dict.items()}
            write_arrays(_find_checkpoint(args, state) / FILE, tables)

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Called by the Trainer at the end."""
        self._remove_hooks()

    def _remove_hooks(self) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks = []


def _find_checkpoint(args: Any, state: Any) -> Path:
    return Path(args.output_dir) / f"checkpoint-{state.global_step}"
