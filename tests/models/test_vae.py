import pytest
import torch
from slipstream.executor.models import checkpoints, vae
from slipstream.executor.models.tiles import count, tiled


@pytest.fixture
def kl(tmp_path, randomised):
    """An autoencoder of ratio 4, loaded from a file, with 4 channels."""
    from diffusers import AutoencoderKL
    from safetensors.torch import save_file

    module = AutoencoderKL(
        latent_channels=4,
        block_out_channels=(32, 32, 32),
        down_block_types=["DownEncoderBlock2D"] * 3,
        up_block_types=["UpDecoderBlock2D"] * 3,
        mid_block_add_attention=False,
    )
    save_file(randomised(module).state_dict(), tmp_path / "vae.safetensors")
    return checkpoints.load_vae(tmp_path / "vae.safetensors")


def test_pictures_are_cut_to_whole_cells_from_both_ends(kl):
    image = torch.rand(1, 22, 27, 4, generator=torch.Generator().manual_seed(0))
    assert torch.equal(kl.encode(image), kl.encode(image[:, 1:21, 1:25, :3]))
    with pytest.raises(ValueError, match="smaller than 4 pixels"):
        kl.encode(image[:, :3])


def test_a_latent_of_another_model_is_refused(kl):
    with pytest.raises(ValueError, match=r"\[B, 4, H, W\].*\[1, 16, 8, 8\]"):
        kl.decode(torch.zeros(1, 16, 8, 8))


def test_what_fits_in_one_tile_is_not_changed_by_tiling(kl):
    latent = torch.randn(2, 4, 8, 8, generator=torch.Generator().manual_seed(0))
    assert (kl.decode_tiled(latent, 16, 4) - kl.decode(latent)).abs().max() < 1e-5
    image = torch.rand(1, 32, 32, 3, generator=torch.Generator().manual_seed(0))
    assert (kl.encode_tiled(image, 64, 16) - kl.encode(image)).abs().max() < 1e-4


def test_tiles_hardly_show(kl):
    """Away from the tiles' borders convolutions see the same; the rest is blended."""
    latent = torch.randn(1, 4, 40, 24, generator=torch.Generator().manual_seed(0))
    whole, parts = kl.decode(latent), kl.decode_tiled(latent, 16, 6)
    assert parts.shape == whole.shape == (1, 160, 96, 3)
    assert (parts - whole).abs().mean() < 0.05


def test_running_out_of_memory_falls_back_to_tiles(kl, monkeypatch):
    latent = torch.randn(1, 4, 24, 24, generator=torch.Generator().manual_seed(0))
    expected = kl.decode_tiled(latent, 64, 16)
    calls = []
    decode = type(kl.codec).decode

    def failing_once(codec, x):
        calls.append(x.shape)
        if len(calls) == 1:
            raise torch.OutOfMemoryError("too little")
        return decode(codec, x)

    monkeypatch.setattr(type(kl.codec), "decode", failing_once)
    assert torch.equal(kl.decode(latent), expected)


def test_pixel_space_is_the_picture_itself():
    image = torch.rand(1, 5, 7, 3)
    space = vae.pixel_space()
    assert torch.equal(space.encode(image), image.movedim(-1, 1) * 2 - 1)
    assert torch.allclose(space.decode(space.encode(image)), image)


def test_blending():
    """Two tiles of 6 over 10 cells, 2 overlapping, of values 1 and 3; each cell by the formula.

    Weights fall by halves over the two outer cells of a tile: 1/2, 1, 1, 1, 1, 1/2.
    """
    seen = []

    def function(part):
        seen.append(part.shape[-1])
        return torch.full((1, 1, 1, part.shape[-1]), 1.0 if len(seen) == 1 else 3.0)

    steps = []
    result = tiled(
        torch.zeros(1, 1, 1, 10),
        function,
        tile=(1, 6),
        overlap=2,
        scale=1,
        channels=1,
        done=lambda: steps.append(None),
    )
    second_at_overlap = [(1 * 1 + 3 * 0.5) / 1.5, (1 * 0.5 + 3 * 1) / 1.5]
    expected = torch.tensor([1.0] * 4 + second_at_overlap + [3.0] * 4)
    assert torch.allclose(result.view(-1), expected)
    assert seen == [6, 6] and len(steps) == 2 == count((1, 10), (1, 6), 2)
