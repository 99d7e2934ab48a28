"""Evidence from other people's loops: right means, nothing lost, the same in every Trainer."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

import drpl
from drpl import Recorder
from drpl.errors import ConfigError, DataError, RunError
from drpl.runs.recorder import WAITING
from drpl.training.evaluate import label_losses, label_margins

EPOCHS, BATCH, LR = 6, 50, 0.1
TABLES = ("latest", "sums", "count")


@dataclass(frozen=True)
class Noisy:
    x: Tensor
    given: Tensor
    true: Tensor

    @property
    def wrong(self) -> Any:
        return (self.given != self.true).numpy()


@cache
def digits() -> Noisy:
    """Digits of which 40 % carry a wrong label."""
    x, y = load_digits(return_X_y=True)
    draws = torch.Generator().manual_seed(3)
    wrong = torch.rand(len(y), generator=draws) < 0.4
    step = torch.randint(1, 10, (len(y),), generator=draws)
    true = torch.tensor(y)
    given = torch.where(wrong, (true + step) % 10, true)
    return Noisy(torch.tensor(x / 16).float(), given, true)


def network() -> nn.Module:
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))


def draw_logits(epochs: int = 3, samples: int = 40, classes: int = 5) -> Tensor:
    return 3 * torch.randn(epochs, samples, classes, generator=torch.Generator().manual_seed(2))


def feed(recorder: Recorder, logits: Tensor, batch: int = 7) -> None:
    """Epochs of logits [E, N, C] in random order."""
    for number, epoch in enumerate(logits):
        order = torch.randperm(len(epoch), generator=torch.Generator().manual_seed(number))
        for index in order.split(batch):
            recorder.record(index, epoch[index])


def train_plainly(recorder: Recorder, epochs: int = EPOCHS, labels: Tensor | None = None) -> None:
    data, net = digits(), network()
    given = data.given if labels is None else labels
    optimizer = torch.optim.SGD(net.parameters(), LR, momentum=0.9)
    for epoch in range(epochs):
        order = torch.randperm(len(data.x), generator=torch.Generator().manual_seed(epoch))
        for index in order.split(BATCH):
            logits = net(data.x[index])
            recorder.record(index, logits)
            loss = cross_entropy(logits, given[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def measure_auroc(recorder: Recorder) -> float:
    data = digits()
    table = recorder.issues(data.given).sort_index()
    return float(roc_auc_score(data.wrong, table.label_noise))


@pytest.fixture(scope="module")
def plain() -> Recorder:
    recorder = Recorder(len(digits().x), 10)
    train_plainly(recorder)
    return recorder


def test_means_by_hand() -> None:
    logits, labels = draw_logits(), torch.arange(40) % 5
    recorder = Recorder(40, 5)
    feed(recorder, logits)
    found = recorder.evidence(labels)
    log_probs = logits.log_softmax(2)
    by_epoch = [
        torch.stack([of(epoch, labels) for epoch in log_probs])
        for of in (label_losses, label_margins)
    ]
    assert found.mean_losses is not None
    assert found.mean_margins is not None
    assert found.mean_probs is not None
    torch.testing.assert_close(found.mean_probs, log_probs.exp().mean(0))
    torch.testing.assert_close(found.mean_losses, by_epoch[0].mean(0))
    torch.testing.assert_close(found.mean_margins, by_epoch[1].mean(0))
    torch.testing.assert_close(found.losses, by_epoch[0][-1:])
    torch.testing.assert_close(found.margins, by_epoch[1][-1:])
    torch.testing.assert_close(found.probs, log_probs[-1].exp())


@pytest.mark.parametrize("batch", [1, 40])
def test_how_the_samples_come_changes_nothing(batch: int) -> None:
    logits = draw_logits(epochs=WAITING // (40 * 5) + 2)  # more than wait
    one, other = Recorder(40, 5), Recorder(40, 5)
    feed(one, logits)
    feed(other, logits, batch)
    for name in TABLES:
        torch.testing.assert_close(other.state_dict()[name], one.state_dict()[name])
    torch.testing.assert_close(one.state_dict()["latest"], logits[-1].log_softmax(1))


def test_what_the_loop_does_later_is_not_recorded() -> None:
    logits = draw_logits(1)[0]
    recorder, index, mine = Recorder(40, 5), torch.arange(40), logits.clone()
    recorder.record(index, mine)
    mine.zero_()
    index.zero_()
    torch.testing.assert_close(recorder.state_dict()["latest"], logits.log_softmax(1))


def test_batches_that_are_empty_of_half_precision_or_hold_a_sample_twice() -> None:
    logits = draw_logits(1)[0]
    recorder = Recorder(40, 5)
    recorder.record([], logits[:0])
    assert not recorder.state_dict()["count"].any()
    recorder.record(np.arange(40), logits.half())
    recorder.record([3, 3], logits[[3, 3]].bfloat16().requires_grad_())
    state = recorder.state_dict()
    assert state["count"].tolist() == [1, 1, 1, 3] + 36 * [1]
    torch.testing.assert_close(state["sums"][3, 1] / 3, logits[3].log_softmax(0), atol=0.05, rtol=0)


def test_margins_of_equal_and_of_impossible_classes() -> None:
    recorder = Recorder(3, 3)
    recorder.record(
        [[0], [1], [2]],
        torch.tensor([[2.0, 2.0, 0.5], [-torch.inf, 2.0, 1.0], [3.0, -1.0, 1.0]]),
    )
    wanted = [[0.0, 0.0, -1.5], [-torch.inf, 1.0, -1.0], [2.0, -4.0, -2.0]]
    assert recorder.state_dict()["sums"][:, 2].tolist() == wanted


def test_memory_is_flat() -> None:
    recorder = Recorder(40, 5)
    for _ in range(3):
        feed(recorder, draw_logits(epochs=WAITING // (40 * 5)))
        assert sum(logits.numel() for _, logits in recorder._waiting) < WAITING
    assert sum(table.nbytes for table in recorder.state_dict().values()) == 40 * (5 * 4 * 4 + 2 * 8)


def test_resuming_is_exact(tmp_path: Path) -> None:
    logits = draw_logits(5, samples=41)  # a number that no processor works on at once
    whole, first, second = (Recorder(41, 5) for _ in range(3))
    feed(whole, logits)
    feed(first, logits[:3])
    torch.save(first.state_dict(), tmp_path / "checkpoint.pt")
    feed(second, logits[:1])  # forgotten
    second.load_state_dict(torch.load(tmp_path / "checkpoint.pt", weights_only=True))
    for recorder in (first, second):  # and the loaded one has tables of its own
        feed(recorder, logits[3:])
    for name in TABLES:
        assert second.state_dict()[name].equal(whole.state_dict()[name]), name
    with pytest.raises(RunError, match="not recorded for 40 samples of 5 classes"):
        Recorder(40, 5).load_state_dict(first.state_dict())


def test_wrong_labels_are_found(plain: Recorder) -> None:
    data = digits()
    table = plain.issues(data.given)
    assert list(table) == ["given", "suggested", "label_noise", "flagged"]
    assert measure_auroc(plain) > 0.98
    worst = table.index[:100].to_numpy()
    assert data.wrong[worst].mean() > 0.97
    found = table[table.flagged]
    assert (found.given != found.suggested).all()
    right = data.true.numpy()[found.index.to_numpy()]
    assert (found.suggested == right).mean() > 0.9
    names = np.array(list("abcdefghij"))
    named = plain.issues(names[data.given.numpy()])
    assert named.index.tolist() == table.index.tolist()
    assert (names[table.suggested] == named.suggested).all()


def test_right_labels_are_not_called_wrong() -> None:
    data, recorder = digits(), Recorder(len(digits().x), 10)
    train_plainly(recorder, labels=data.true)
    assert recorder.issues(data.true).flagged.mean() < 0.01


def test_the_folder_is_that_of_a_run(plain: Recorder, tmp_path: Path) -> None:
    data = digits()
    folder = tmp_path / "run"
    result = plain.save(folder, data.given, name="digits", true_labels=data.true)
    assert result.detection is not None
    assert result.detection["auroc"] == pytest.approx(measure_auroc(plain), abs=0.002)
    assert result.suspicious(5).id.tolist() == plain.issues(data.given).index[:5].tolist()
    scores = drpl.score(folder).set_index("detector")
    wanting = scores.index[scores.skipped.ne("")]  # what compares vectors, of which there are none
    assert set(wanting) == {"neighbour_agreement", "simifeat_vote", "simifeat_rank"}
    assert scores.auroc["trajectory"] == pytest.approx(result.detection["auroc"], abs=0.01)
    assert drpl.report([result], tmp_path / "report.html").stat().st_size > 10_000
    plain.save(folder, data.given, name="digits")  # again, now without the truth
    assert drpl.Result.load(folder).detection is None
    with pytest.raises(RunError, match="other labels"):
        plain.save(folder, data.true, name="digits")


def test_mistakes() -> None:
    recorder = Recorder(40, 5)
    with pytest.raises(DataError, match=r"wanted are logits \[3, 5\].*got \[3, 4\]"):
        recorder.record([0, 1, 2], torch.zeros(3, 4))
    recorder.record([0, 1], torch.zeros(2, 5))
    with pytest.raises(DataError, match="38 of 40 samples were never recorded"):
        recorder.issues(torch.zeros(40))
    with pytest.raises(DataError, match="39 labels for 40 samples"):
        recorder.issues(torch.zeros(39))
    with pytest.raises(DataError, match=r"from 0 to 4, got 0\.\.7"):
        recorder.issues([0] * 39 + [7])
    recorder.record([40], torch.zeros(1, 5))
    with pytest.raises(DataError, match=r"from 0 to 39, got 40\.\.40"):
        recorder.state_dict()
    with pytest.raises(ConfigError, match="2 classes or more"):
        Recorder(40, 1)


def lightning_training(folder: Path) -> Callable[..., None]:
    """Train with Lightning, perhaps from a checkpoint, for some epochs in all."""
    pl: Any = pytest.importorskip("lightning.pytorch")
    data = digits()

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.net = network()

        def training_step(self, batch: Any) -> Any:
            x, y, index = batch
            logits = self.net(x)
            return {"loss": cross_entropy(logits, y), "logits": logits, "index": index}

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), LR, momentum=0.9)

    def train(callback: Any, epochs: int, checkpoint: Path | None = None) -> None:
        everything = torch.utils.data.TensorDataset(data.x, data.given, torch.arange(len(data.x)))
        draws = torch.Generator().manual_seed(1)
        loader = torch.utils.data.DataLoader(everything, BATCH, shuffle=True, generator=draws)
        shown = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            callbacks=[callback],
            enable_checkpointing=False,
            default_root_dir=folder,
            **shown,
        )
        trainer.fit(Module(), loader, ckpt_path=checkpoint)
        trainer.save_checkpoint(folder / "last.ckpt")

    return train


@pytest.mark.filterwarnings("ignore")
def test_lightning(plain: Recorder, tmp_path: Path) -> None:
    train, recorder = lightning_training(tmp_path), Recorder(len(digits().x), 10)
    train(recorder.make_lightning_callback(), EPOCHS - 2)
    again = Recorder(recorder.n, 10)
    train(again.make_lightning_callback(), EPOCHS, tmp_path / "last.ckpt")
    assert (recorder.state_dict()["count"] == EPOCHS - 2).all()
    assert (again.state_dict()["count"] == EPOCHS).all()
    assert measure_auroc(again) == pytest.approx(measure_auroc(plain), abs=0.01)


@pytest.mark.filterwarnings("ignore")
def test_lightning_without_logits(tmp_path: Path) -> None:
    pytest.importorskip("lightning.pytorch")
    callback = Recorder(40, 5).make_lightning_callback()
    for outputs in (torch.zeros(()), {"loss": torch.zeros(())}, None):
        with pytest.raises(ConfigError, match="training_step must return a dict"):
            callback.on_train_batch_end(None, None, outputs, None, 0)


class Classifier(nn.Module):
    """A model as the Trainer of transformers wants it; it accepts no `index`."""

    def __init__(self) -> None:
        super().__init__()
        self.net = network()

    def forward(self, x: Tensor, labels: Tensor) -> dict[str, Tensor]:
        logits = self.net(x)
        return {"loss": cross_entropy(logits, labels), "logits": logits}


def transformers_training(folder: Path) -> Callable[..., None]:
    """The same with the Trainer of transformers."""
    pytest.importorskip("accelerate")
    transformers = pytest.importorskip("transformers")
    data = digits()
    examples = [
        {"x": x, "labels": int(y), "index": number}
        for number, (x, y) in enumerate(zip(data.x, data.given, strict=True))
    ]

    def train(callback: Any, epochs: int, *, resume: bool = False, **more: Any) -> None:
        net = Classifier()
        optimizer = torch.optim.SGD(net.parameters(), LR, momentum=0.9)
        constant = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda _: 1.0)
        arguments = {
            "output_dir": folder,
            "num_train_epochs": epochs,
            "per_device_train_batch_size": BATCH,
            "save_strategy": "epoch",
            "report_to": "none",
            "disable_tqdm": True,
            "remove_unused_columns": False,
            "max_grad_norm": 0.0,
            "use_cpu": True,
            "seed": 1,
            **more,
        }
        trainer = transformers.Trainer(
            model=net,
            args=transformers.TrainingArguments(**arguments),
            train_dataset=examples,
            eval_dataset=examples[:60],
            optimizers=(optimizer, constant),
            callbacks=[callback],
        )
        trainer.train(resume_from_checkpoint=resume)

    return train


@pytest.mark.filterwarnings("ignore")
def test_transformers(plain: Recorder, tmp_path: Path) -> None:
    train, recorder = transformers_training(tmp_path), Recorder(len(digits().x), 10)
    train(recorder.make_transformers_callback(), EPOCHS - 2, eval_strategy="epoch")
    again = Recorder(recorder.n, 10)
    train(again.make_transformers_callback(), EPOCHS, resume=True)
    assert (recorder.state_dict()["count"] == EPOCHS - 2).all()  # evaluation is not recorded
    assert (again.state_dict()["count"] == EPOCHS).all()
    assert measure_auroc(again) == pytest.approx(measure_auroc(plain), abs=0.01)


@pytest.mark.filterwarnings("ignore")
def test_transformers_without_index(tmp_path: Path) -> None:
    train = transformers_training(tmp_path)
    callback = Recorder(len(digits().x), 10).make_transformers_callback()
    with pytest.raises(ConfigError, match="remove_unused_columns=False"):
        train(callback, 1, remove_unused_columns=True)


def test_hooks_without_a_trainer(tmp_path: Path) -> None:
    """What the callback does, where only transformers is installed."""
    pytest.importorskip("transformers")
    recorder, net = Recorder(4, 10), Classifier()
    callback = recorder.make_transformers_callback()
    args, state = SimpleNamespace(output_dir=tmp_path), SimpleNamespace(global_step=0)
    for _ in range(2):  # as after a training that was broken off
        callback.on_train_begin(args, state, None, model=net)
    batch = {"x": torch.rand(4, 64), "labels": torch.arange(4), "index": torch.arange(4)}
    logits = net(**batch)["logits"]
    net.eval()(**batch)
    net(x=batch["x"], labels=batch["labels"])  # evaluation needs no numbers
    callback.on_train_end(args, state, None)
    assert not net._forward_hooks
    assert not net._forward_pre_hooks
    torch.testing.assert_close(recorder.state_dict()["latest"], logits.detach().log_softmax(1))
    assert recorder.state_dict()["count"].tolist() == [1, 1, 1, 1]


@pytest.mark.parametrize("package", ["lightning", "transformers"])
def test_without_the_package(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.setitem(sys.modules, "lightning.pytorch", None)
    monkeypatch.delitem(sys.modules, f"drpl.runs.{package}_callback", raising=False)
    with pytest.raises(ConfigError, match=rf"pip install 'drpl\[{package}\]'"):
        getattr(Recorder(4, 2), f"make_{package}_callback")()


def test_passes_with_and_without_gradients_are_recorded() -> None:
    recorder, plain = drpl.Recorder(4, 3), drpl.Recorder(4, 3)
    net, index = torch.nn.Linear(2, 3), torch.arange(4)
    logits = net(torch.eye(4, 2))
    with torch.inference_mode():
        recorder.record(index, net(torch.eye(4, 2)))
    recorder.record(index, logits)
    logits.sum().backward()  # the recorder is no part of it
    assert net.weight.grad is not None
    for _ in range(2):
        plain.record(index, logits.detach())
    for name, table in recorder.state_dict().items():
        torch.testing.assert_close(table, plain.state_dict()[name])
