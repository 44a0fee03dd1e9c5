import torch
from slipstream.executor.library import vae as nodes


class Recorder:
    """A VAE of ratio 8 that remembers how it was called; encoding gives the picture itself."""

    ratio = 8

    def __init__(self):
        self.calls = []

    def encode(self, image):
        return image

    def decode_tiled(self, latent, tile, overlap):
        self.calls.append((tile, overlap))
        return latent

    encode_tiled = decode_tiled


def test_tile_sizes_are_in_pixels():
    vae = Recorder()
    nodes.VAEDecodeTiled().decode(vae, {"samples": torch.zeros(1)}, 512, 64)
    nodes.VAEDecodeTiled().decode(vae, {"samples": torch.zeros(1)}, 128, 64)  # at most a quarter overlaps
    nodes.VAEEncodeTiled().encode(vae, torch.zeros(1), 512, 64)
    assert vae.calls == [(64, 8), (16, 4), (512, 64)]


def test_inpainting_greys_out_what_is_masked():
    image = torch.full((1, 20, 16, 3), 0.9)
    mask = torch.zeros(1, 20, 16)
    mask[:, 6:10, 4:8] = 1.0
    (latent,) = nodes.VAEEncodeForInpaint().encode(Recorder(), image, mask, grow_mask_by=3)
    assert latent["samples"].shape == (1, 16, 16, 3)  # two rows are cut at each end
    grey = latent["samples"][0, :, :, 0] == 0.5
    assert grey.nonzero().min(0).values.tolist() == [4, 4] and grey.nonzero().max(0).values.tolist() == [7, 7]
    grown = latent["noise_mask"][0, 0].nonzero()
    assert grown.min(0).values.tolist() == [3, 3] and grown.max(0).values.tolist() == [8, 8]
    (latent,) = nodes.VAEEncodeForInpaint().encode(Recorder(), image, mask, grow_mask_by=0)
    assert latent["noise_mask"].sum() == 16
