"""A recorder in the Trainer of Lightning."""

from typing import TYPE_CHECKING, Any

from lightning.pytorch import Callback

from drpl.errors import ConfigError

if TYPE_CHECKING:
    from drpl.runs.recorder import Recorder


class LightningCallback(Callback):  # type: ignore[misc]  # it may not be installed
    """Records each training batch, and is saved and loaded with the Trainer's checkpoints."""

    def __init__(self, recorder: "Recorder") -> None:
        self.recorder = recorder

    def on_train_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Called by the Trainer with what `training_step` returned."""
        if not isinstance(outputs, dict) or not {"logits", "index"} <= outputs.keys():
            raise ConfigError(
                "training_step must return a dict with loss, logits and index, the numbers of the "
                "samples; without them nothing can be recorded"
            )
        self.recorder.record(outputs["index"], outputs["logits"])

    def state_dict(self) -> dict[str, Any]:
        """What goes into a checkpoint."""
        return self.recorder.gather().state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """What comes from a checkpoint."""
        self.recorder.resume(state_dict)
