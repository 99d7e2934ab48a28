"""Encoders of timm and transformers, without a network connection."""

import json
import os
import socket
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from drpl.encoders.encoder import load_encoder
from drpl.errors import ConfigError

PROCESSOR = {
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.2, 0.3, 0.4],
    "image_processor_type": "ViTImageProcessor",
    "size": {"height": 16, "width": 16},
}
SMALL = {
    "hidden_size": 8,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 8,
    "image_size": 16,
    "patch_size": 8,
}


@pytest.fixture(autouse=True)
def cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever wants to connect fails the test."""

    def refuse(*_: object) -> None:
        pytest.fail("somebody wants to reach the network")

    for name in ("connect", "connect_ex"):
        monkeypatch.setattr(socket.socket, name, refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)


def save(folder: Path, kind: str, about: dict[str, Any] = PROCESSOR) -> Any:
    """A model of transformers with random weights, in a folder."""
    transformers: Any = import_module("transformers")
    torch.manual_seed(1)
    if kind == "CLIP":
        words = {**SMALL, "vocab_size": 9, "max_position_embeddings": 4, "bos_token_id": 0}
        words |= {"eos_token_id": 1, "pad_token_id": 1}
        config = transformers.CLIPConfig(
            text_config={k: v for k, v in words.items() if k not in ("image_size", "patch_size")},
            vision_config=SMALL,
            projection_dim=4,
        )
        model = transformers.CLIPModel(config)
    elif kind == "CLIPVision":
        model = transformers.CLIPVisionModel(transformers.CLIPVisionConfig(**SMALL))
    else:
        model = getattr(transformers, f"{kind}Model")(
            getattr(transformers, f"{kind}Config")(**SMALL)
        )
    model.eval().save_pretrained(folder)
    (folder / "preprocessor_config.json").write_text(json.dumps(about))
    return model


@pytest.mark.parametrize("kind", ["ViT", "Dinov2", "CLIP", "CLIPVision"])
def test_the_image_tower_of_a_saved_model(tmp_path: Path, kind: str) -> None:
    model = save(tmp_path, kind)
    encoder = load_encoder(f"hf:{tmp_path}")
    assert (encoder.size, encoder.dim) == (16, 8)
    draws = torch.Generator().manual_seed(2)
    pixels = torch.randint(0, 256, (3, 3, 16, 16), generator=draws, dtype=torch.uint8)
    mean, std = (torch.tensor(PROCESSOR[f"image_{n}"]).view(3, 1, 1) for n in ("mean", "std"))
    tower = model.vision_model if kind == "CLIP" else model
    with torch.inference_mode():
        wanted = tower(pixel_values=(pixels / 255 - mean) / std).pooler_output
    assert torch.allclose(encoder.encode(pixels), wanted, atol=1e-5)
    assert wanted.std() > 0.01
    assert "HF_HUB_OFFLINE" not in os.environ


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_a_model_stored_in_half_precision(tmp_path: Path, kind: torch.dtype) -> None:
    save(tmp_path, "ViT").to(kind).save_pretrained(tmp_path)
    encoder = load_encoder(f"hf:{tmp_path}")
    assert encoder.net is not None
    assert {weight.dtype for weight in encoder.net.parameters()} == {torch.float32}
    assert encoder.encode(torch.zeros(2, 3, 16, 16, dtype=torch.uint8)).isfinite().all()


def test_other_weights_have_another_fingerprint(tmp_path: Path) -> None:
    model = save(tmp_path, "ViT")
    first = load_encoder(f"hf:{tmp_path}").weights
    assert load_encoder(f"hf:{tmp_path}").weights == first
    with torch.no_grad():
        next(model.parameters()).add_(0.1)
    model.save_pretrained(tmp_path)
    assert load_encoder(f"hf:{tmp_path}").weights != first


def test_scaling_and_size_as_the_folder_says(tmp_path: Path) -> None:
    save(tmp_path, "ViT", {"size": 16})
    assert load_encoder(f"hf:{tmp_path}").size == 16
    save(tmp_path, "ViT", {"crop_size": {"height": 16}, "size": {"shortest_edge": 18}})
    assert load_encoder(f"hf:{tmp_path}").size == 16


def test_a_size_that_the_model_does_not_take(tmp_path: Path) -> None:
    save(tmp_path, "ViT")
    with pytest.raises(ConfigError, match=r"cannot be run on images of 40 px: ") as raised:
        load_encoder(f"hf:{tmp_path}", size=40)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize("what", ["openai/not-here", "no-such-model", "empty"])
def test_names_that_are_not_here_ask_nobody(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    with pytest.raises(ConfigError, match=f"hf:{what} cannot be loaded .*--download") as raised:
        load_encoder(f"hf:{what}")
    assert "\n" not in str(raised.value)


def test_transformers_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ConfigError, match="needs the package transformers, which cannot be"):
        load_encoder("hf:name")


class Net(nn.Module):
    """What timm builds with no classes: a body that pools, here for images of any size."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Linear(3, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.body(x.mean((2, 3)))
        return found


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Stands for the package: it knows the network `small`, whose weights must be fetched."""
    fake: Any = ModuleType("timm")

    def create_model(name: str, pretrained: bool, num_classes: int) -> nn.Module:
        assert num_classes == 0
        if name != "small":
            raise RuntimeError(f"Unknown model ({name})")
        if pretrained:
            torch.hub.load_state_dict_from_url("https://example.org/small-01234567.pth")
        return Net()

    about = {"input_size": (3, 12, 12), "mean": (0.0, 0.0, 0.0), "std": (1.0, 1.0, 1.0)}
    fake.create_model = create_model
    fake.data = SimpleNamespace(resolve_model_data_config=lambda _: about)
    fake.models = SimpleNamespace(load_state_dict=lambda path: torch.load(path, weights_only=True))
    monkeypatch.setitem(sys.modules, "timm", fake)
    return fake  # type: ignore[no-any-return]


@pytest.mark.usefixtures("timm")
def test_a_network_of_timm_with_the_weights_of_a_file(tmp_path: Path) -> None:
    """The classifier in the file is passed over."""
    net = Net()
    torch.save(net.state_dict() | {"head.weight": torch.zeros(2, 5)}, tmp_path / "small.pth")
    encoder = load_encoder(f"timm:small@{tmp_path / 'small.pth'}")
    assert (encoder.size, encoder.dim) == (12, 5)
    pixels = torch.full((2, 3, 12, 12), 51, dtype=torch.uint8)
    wanted = net(torch.full((2, 3, 12, 12), 0.2))
    assert torch.allclose(encoder.encode(pixels), wanted, atol=1e-5)


@pytest.mark.usefixtures("timm")
@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("small@nowhere.pth", r"there is no file of weights nowhere\.pth"),
        ("small", r"small cannot be built \(.*only with --download\); give its weights as timm:sm"),
        ("large", r"timm:large cannot be built \(Unknown model \(large\)\); give its weights"),
        ("small@other.pth", r"weights of another network: 2 tensors are not in it, such as body"),
        ("small@shape.pth", r"small@shape\.pth cannot be built \(Error\(s\) in loading"),
        ("small@text.pth", r"small@text\.pth cannot be built \("),
    ],
)
def test_mistakes_with_timm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, sentence: str
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path))
    torch.save({"stem.weight": torch.zeros(2)}, "other.pth")
    torch.save({"body.weight": torch.zeros(2), "body.bias": torch.zeros(5)}, "shape.pth")
    Path("text.pth").write_text("no weights")
    with pytest.raises(ConfigError, match=sentence) as raised:
        load_encoder(f"timm:{name}")
    assert "\n" not in str(raised.value)


def test_timm_that_cannot_be_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ConfigError, match=r"encoder 'timm:small' needs the package timm, which"):
        load_encoder("timm:small")
