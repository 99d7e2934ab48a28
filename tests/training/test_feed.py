from pathlib import Path

import pytest
import torch
from PIL import Image

from drpl.data.images import FileImages, Images, TensorImages
from drpl.data.strong import StrongImages
from drpl.data.transforms import CropFlip, Normalise
from drpl.errors import TrainingError
from drpl.training.feed import Feed
from tests.support.tiny import tiny_pixels

CPU = torch.device("cpu")
STILL = Normalise((0.5,), (0.25,))
VIEW = CropFlip(1, True, STILL)


def feed(images: Images, epoch: int = 1, batch: int = 16, seed: int = 1) -> Feed:
    return Feed(images, VIEW, VIEW, batch, epoch, (seed, "stage"), CPU)


def strong_feed(images: Images, batch: int = 16) -> Feed:
    strong = StrongImages(VIEW, 0.3, 2, 1.0, 0.8, 0.2, 0.25)
    return Feed(images, VIEW, STILL, batch, 1, (1, "stage"), CPU, strong)


def test_every_sample_once_in_another_order_each_epoch() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])
    orders = [torch.cat([i for _, i in feed(images, epoch)()]) for epoch in (1, 2)]
    for order in orders:
        assert order.sort().values.tolist() == list(range(72))
    assert not torch.equal(*orders)


def test_a_view_depends_on_the_sample_not_on_its_batch() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])

    def views(batch: int) -> torch.Tensor:
        table = torch.zeros(72, 1, 8, 8)
        for x, i in feed(images, batch=batch)():
            table[i] = x
        return table

    assert torch.equal(views(16), views(36))


def test_passes_of_one_epoch_differ_and_subsets_stay_inside() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])
    one = feed(images)
    first, second = ([x for x, _ in one()] for _ in range(2))
    assert not torch.equal(first[0], second[0])
    subset = torch.tensor([3, 5, 8, 13, 21, 34, 55])
    assert set(torch.cat([i for _, i in one(subset)]).tolist()) == set(subset.tolist())


def test_a_small_rest_is_skipped_but_a_small_set_is_not() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])
    sizes = [len(i) for _, i in feed(images, batch=34)()]
    assert sizes == [34, 34]  # the last 4 are too few for batch norm
    assert [len(i) for _, i in feed(images)(torch.tensor([1, 2, 3]))] == [3]


def test_files_give_the_same_batches_as_memory(tmp_path: Path) -> None:
    pixels, _ = tiny_pixels(40, "train")
    paths = []
    for k, image in enumerate(pixels):
        paths.append(tmp_path / f"{k}.png")
        Image.fromarray(image[0].numpy()).save(paths[-1])
    files = FileImages(paths, 8, 1)
    for (x, i), (y, j) in zip(feed(files)(), feed(TensorImages(pixels))(), strict=True):
        assert torch.equal(x, y)
        assert torch.equal(i, j)


def test_two_views_of_the_same_images_and_a_walk_without_end() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])
    one = feed(images)
    first, second, i = next(one(views=2, batch_size=24))
    assert first.shape == second.shape == (24, 1, 8, 8)
    assert not torch.equal(first, second)
    alone, same = next(feed(images)(batch_size=24))
    assert torch.equal(same, i)
    assert torch.equal(alone, first)  # a second view leaves the first as it is
    walk = one.cycle(torch.arange(20), batch_size=10)
    seen = [next(walk)[-1] for _ in range(6)]
    assert [len(set(torch.cat(seen[k : k + 2]).tolist())) for k in (0, 2, 4)] == [20, 20, 20]
    assert one.served == 24 * 2 + 60
    with pytest.raises(TrainingError, match="no samples left"):
        next(one.cycle(torch.arange(0)))


def test_strong_and_plain_views_leave_the_weak_ones_as_they_are() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])
    x1, x2, i = next(feed(images)(views=2))
    weak1, weak2, s1, s2, plain, same = next(strong_feed(images)(views=2, strong=2, plain=True))
    assert torch.equal(i, same)
    assert torch.equal(x1, weak1)
    assert torch.equal(x2, weak2)
    assert not torch.equal(s1, s2)
    assert not torch.equal(s1, x1)
    torch.testing.assert_close(plain, STILL(images.load(i), torch.empty(0)))
    (alone, _) = next(strong_feed(images)(views=0, strong=1))
    assert torch.equal(alone, s1)  # nor do they change by what else is asked for
    one = strong_feed(images)
    walk = one.cycle(torch.arange(20), strong=1, batch_size=10)
    assert [len(next(walk)) for _ in range(3)] == [3, 3, 3]
    assert one.served == 2 * 30


def test_a_strong_view_depends_on_the_sample_not_on_its_batch() -> None:
    images = TensorImages(tiny_pixels(72, "train")[0])

    def views(batch: int) -> torch.Tensor:
        table = torch.zeros(72, 1, 8, 8)
        for x, i in strong_feed(images, batch)(views=0, strong=1):
            table[i] = x
        return table

    torch.testing.assert_close(views(16), views(36))


def test_a_feed_without_strong_views_says_so() -> None:
    images = TensorImages(tiny_pixels(20, "train")[0])
    with pytest.raises(TrainingError, match="without a transform for strong views"):
        next(feed(images)(strong=1))


def test_predicting_is_in_evaluation_mode_and_leaves_the_network_as_it_was() -> None:
    images = TensorImages(tiny_pixels(20, "train")[0])
    net = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(64, 3), torch.nn.Dropout(0.5))
    one = feed(images)
    looks = [one.predict_all(net, augmented=True) for _ in range(2)]
    assert net.training
    assert not torch.equal(*looks)  # new views each time
    assert torch.allclose(looks[0].exp().sum(1), torch.ones(20))


def test_recorded_predictions_are_averaged_and_unvisited_samples_known() -> None:
    one = feed(TensorImages(tiny_pixels(4, "train")[0]))
    assert one.predictions.probs.shape == (4, 0)  # nothing was recorded
    two = feed(TensorImages(tiny_pixels(4, "train")[0]))
    two.record(torch.tensor([0, 2]), torch.tensor([[0.5, 0.5], [1.0, 0.0]]))
    two.record(torch.tensor([0]), torch.tensor([[0.0, 1.0]]))
    probs, visited = two.predictions
    assert visited.tolist() == [True, False, True, False]
    assert probs[[0, 2]].tolist() == [[0.25, 0.75], [1.0, 0.0]]


def test_progress_is_that_of_the_pass_not_of_the_set_walked_beside_it() -> None:
    one = feed(TensorImages(tiny_pixels(72, "train")[0]), batch=18)
    assert one.progress == 0
    seen = []
    for _ in zip(one(), one.cycle(torch.arange(40)), strict=False):
        seen.append(one.progress)
    assert seen == [0.25, 0.5, 0.75, 1.0]
