import torch

from drpl.data.transforms import CropFlip, Mirrored, Normalise

PLAIN = Normalise((0.0,), (1.0,))


def image() -> torch.Tensor:
    return torch.arange(1, 17, dtype=torch.uint8).view(1, 1, 4, 4)


def test_the_middle_draw_is_the_image_itself() -> None:
    still = CropFlip(1, True, PLAIN)(image(), torch.tensor([[0.5, 0.5, 0.0]]))
    assert torch.allclose(still * 255, image().float())


def test_corner_crops_bring_in_black_and_flip_mirrors() -> None:
    corner = CropFlip(1, False, PLAIN)(image(), torch.tensor([[0.0, 0.0, 0.9]]))[0, 0] * 255
    assert torch.allclose(corner[1:, 1:], image()[0, 0, :3, :3].float())
    assert float(corner[0].abs().sum() + corner[:, 0].abs().sum()) == 0
    mirrored = CropFlip(0, True, PLAIN)(image(), torch.tensor([[0.5, 0.5, 0.9]]))
    assert torch.allclose(mirrored * 255, image().flip(3).float())


def test_padding_is_black_before_normalisation() -> None:
    view = CropFlip(1, False, Normalise((0.5,), (0.25,)))(image(), torch.tensor([[0.0, 0.0, 0.0]]))
    assert float(view[0, 0, 0, 0]) == -2.0


def test_all_positions_are_reached_evenly() -> None:
    u = torch.rand(9000, 3, generator=torch.Generator().manual_seed(1))
    views = CropFlip(1, False, PLAIN)(image().expand(9000, 1, 4, 4), u)
    corners = (views[:, 0, 1, 1] * 255).round().long()  # what lies at (1, 1) tells the offset
    counts = torch.bincount(corners, minlength=12)
    assert sorted(counts.nonzero().flatten().tolist()) == [1, 2, 3, 5, 6, 7, 9, 10, 11]
    assert int(counts[counts > 0].min()) > 850


def test_images_come_out_channels_last() -> None:
    pixels = torch.zeros(2, 3, 8, 8, dtype=torch.uint8)
    view = CropFlip(1, True, Normalise((0.5,) * 3, (0.5,) * 3))
    for x in (view(pixels, torch.rand(2, 3)), view.normalise(pixels, torch.empty(2, 0))):
        assert x.is_contiguous(memory_format=torch.channels_last)
        assert x.dtype == torch.float32


def test_vectors_are_standardised() -> None:
    x = Normalise((1.0, 2.0), (2.0, 4.0))(torch.tensor([[3.0, 10.0]]), torch.empty(1, 0))
    assert x.tolist() == [[1.0, 2.0]]


def test_a_smaller_crop_is_random_to_train_and_central_to_test() -> None:
    part = Normalise((0.0,), (1.0,), crop=0.5)
    assert part.output_shape((1, 4, 4)) == (1, 2, 2)
    assert part.output_shape((4,)) == (4,)
    centre = part(image(), torch.empty(1, 0)) * 255
    assert torch.allclose(centre, image()[:, :, 1:3, 1:3].float())
    view = CropFlip(0, False, part)
    first, last = view(image().expand(2, 1, 4, 4), torch.tensor([[0.0] * 3, [0.999] * 3])) * 255
    assert torch.allclose(first, image()[0, :, :2, :2].float())
    assert torch.allclose(last, image()[0, :, 2:, 2:].float())
    corner = CropFlip(1, False, part)(image(), torch.tensor([[0.0] * 3])) * 255
    assert corner.flatten().round().tolist() == [0, 0, 0, 1]
    oblong = torch.zeros(2, 3, 256, 128, dtype=torch.uint8)
    webvision = CropFlip(0, True, Normalise((0.5,) * 3, (0.5,) * 3, crop=0.875))
    assert webvision(oblong, torch.rand(2, 3)).shape == (2, 3, 224, 112)
    assert webvision.normalise(oblong, torch.empty(2, 0)).shape == (2, 3, 224, 112)


def test_a_mirrored_view_is_the_view_of_the_mirror_image() -> None:
    u = torch.tensor([[0.1, 0.9, 0.2]])
    view = CropFlip(1, True, PLAIN)
    assert torch.equal(Mirrored(view)(image(), u), view(image().flip(3), u))
    assert not torch.equal(Mirrored(view)(image(), u), view(image(), u))
    assert (Mirrored(view).num_uniforms, Mirrored(PLAIN).num_uniforms) == (3, 0)
