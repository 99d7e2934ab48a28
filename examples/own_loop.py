"""Wrong labels from a training loop of one's own: plain PyTorch, Lightning, or transformers.

    python examples/own_loop.py plain
    python examples/own_loop.py lightning         # pip install 'drpl[lightning]'
    python examples/own_loop.py transformers      # pip install 'drpl[transformers]'

A recorder is told which samples a batch holds and what the network made of them; nothing else of
the loop changes. Here 40 % of the digits carry a wrong label.
"""

import sys
import tempfile
from typing import Any, NamedTuple

import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import drpl

EPOCHS, BATCH, LR = 10, 64, 0.1


class Noisy(NamedTuple):
    """Images, the labels they are given, and the true ones."""

    x: Tensor
    given: Tensor
    true: Tensor


def read(seed: int = 1) -> Noisy:
    """The digits, of which 40 % are given a wrong label."""
    digits, draws = load_digits(), torch.Generator().manual_seed(seed)
    true = torch.tensor(digits.target)
    wrong = torch.rand(len(true), generator=draws) < 0.4
    step = torch.randint(1, 10, (len(true),), generator=draws)
    x = torch.tensor(digits.images / 16, dtype=torch.float32)[:, None]  # [N, 1, 8, 8]
    return Noisy(x, torch.where(wrong, (true + step) % 10, true), true)


def make_network(seed: int) -> nn.Module:
    """Small and convolutional, and the same in all three loops."""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for before, after in ((1, 16), (16, 32)):
        layers += [nn.Conv2d(before, after, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.MaxPool2d(2), nn.Flatten(), nn.Linear(512, 10))


def train_plain(data: Noisy, recorder: drpl.Recorder, seed: int = 1) -> None:
    """A loop as anybody writes it, and one line more."""
    net = make_network(seed)
    optimizer = torch.optim.SGD(net.parameters(), LR, momentum=0.9)
    dataset = TensorDataset(data.x, data.given, torch.arange(len(data.x)))
    for _ in range(EPOCHS):
        for x, y, index in DataLoader(dataset, BATCH, shuffle=True):
            logits = net(x)
            recorder.record(index, logits)
            loss = cross_entropy(logits, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def train_lightning(data: Noisy, recorder: drpl.Recorder, seed: int = 1) -> None:
    """`training_step` returns logits and index beside the loss; a callback records them."""
    import lightning

    class Module(lightning.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = make_network(seed)

        def training_step(self, batch: Any) -> dict[str, Tensor]:
            x, y, index = batch
            logits = self.net(x)
            return {"loss": cross_entropy(logits, y), "logits": logits, "index": index}

        def configure_optimizers(self) -> torch.optim.Optimizer:
            return torch.optim.SGD(self.parameters(), LR, momentum=0.9)

    trainer = lightning.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        callbacks=[recorder.make_lightning_callback()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    dataset = TensorDataset(data.x, data.given, torch.arange(len(data.x)))
    trainer.fit(Module(), DataLoader(dataset, BATCH, shuffle=True))


class Classifier(nn.Module):
    """A model as the Trainer of transformers wants it."""

    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, x: Tensor, labels: Tensor, index: Tensor | None = None) -> dict[str, Tensor]:
        """The loss and the logits; a recorder takes the index away before."""
        logits = self.net(x)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def train_transformers(data: Noisy, recorder: drpl.Recorder, seed: int = 1) -> None:
    """Every example has its number as `index`, which no column filter may remove."""
    from transformers import Trainer, TrainingArguments

    examples: Any = [
        {"x": x, "labels": y, "index": number}
        for number, (x, y) in enumerate(zip(data.x, data.given, strict=True))
    ]
    model = Classifier(make_network(seed))
    optimizer = torch.optim.SGD(model.parameters(), LR, momentum=0.9)
    constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            num_train_epochs=EPOCHS,
            per_device_train_batch_size=BATCH,
            remove_unused_columns=False,
            max_grad_norm=0.0,
            save_strategy="no",
            report_to="none",
            use_cpu=True,
            disable_tqdm=True,
            seed=seed,
        )
        Trainer(
            model=model,
            args=arguments,
            train_dataset=examples,
            optimizers=(optimizer, constant),
            callbacks=[recorder.make_transformers_callback()],
        ).train()


LOOPS = {
    "plain": train_plain,
    "lightning": train_lightning,
    "transformers": train_transformers,
}


def measure_auroc(recorder: drpl.Recorder, data: Noisy) -> float:
    """How well the wrong labels are told from the right ones."""
    noise = recorder.issues(data.given).sort_index().label_noise
    return float(roc_auc_score((data.given != data.true).numpy(), noise))


def main(loop: str) -> drpl.Recorder:
    """Train, and show the labels that are most probably wrong."""
    data = read()
    recorder = drpl.Recorder(len(data.x), classes=10)
    LOOPS[loop](data, recorder)
    print(recorder.issues(data.given).head(10))
    print(f"AUROC {measure_auroc(recorder, data):.3f}")
    return recorder


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "plain")
