import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import save_file
from slipstream.executor.library import latent as nodes
from slipstream.executor.library import latent_batch as batch
from slipstream.executor.library.latent_io import LoadLatent, SaveLatent
from slipstream.executor.library.resample import resample


def latent(*shape, **more):
    return {"samples": torch.arange(torch.Size(shape).numel(), dtype=torch.float32).reshape(shape), **more}


def test_empty_video_counts_frames_in_fours_after_the_first():
    for length, frames in ((1, 1), (4, 1), (5, 2), (25, 7)):
        samples = nodes.EmptyHunyuanLatentVideo().generate(64, 32, length)[0]["samples"]
        assert samples.shape == (1, 16, frames, 4, 8)


def test_video_is_resized_frame_by_frame():
    samples = torch.rand(2, 4, 3, 6, 8)
    result = resample(samples, 11, 9, "bicubic")
    for frame in range(3):
        assert torch.equal(result[:, :, frame], resample(samples[:, :, frame], 11, 9, "bicubic"))


def test_empty_sides_are_refused():
    with pytest.raises(ValueError, match="0 x 5"):
        resample(torch.rand(1, 4, 3, 3), 0, 5, "bilinear")


def test_opposite_vectors_are_mixed_on_the_straight_line():
    """Between v and -v there is no arc; at equal distance the straight line is at 0."""
    samples = torch.stack([torch.ones(3), -torch.ones(3)], dim=-1).reshape(1, 3, 1, 2)
    assert resample(samples, 4, 1, "bislerp")[0, 0, 0].tolist() == pytest.approx([1, 0.5, -0.5, -1])


def test_zero_both_ways_leaves_the_latent_alone():
    given = latent(1, 4, 8, 8)
    assert nodes.LatentUpscale().upscale(given, "bilinear", 0, 0, "disabled")[0] is given


def test_trim_takes_frames_off_the_start():
    (result,) = nodes.TrimVideoLatent().trim(latent(1, 2, 5, 1, 1), 2)
    assert result["samples"].flatten().tolist() == [2, 3, 4, 7, 8, 9]


def test_video_turns_in_its_plane():
    samples = latent(1, 1, 2, 2, 3)
    assert nodes.LatentRotate().rotate(samples, "90 degrees")[0]["samples"][0, 0, 0].tolist() == [
        [3, 0],
        [4, 1],
        [5, 2],
    ]
    flipped = nodes.LatentFlip().flip(samples, "y-axis: horizontally")[0]["samples"]
    assert flipped[0, 0, 0].tolist() == [[2, 1, 0], [5, 4, 3]]


def test_composite_beyond_the_edge():
    below, above = latent(1, 1, 4, 4), latent(1, 1, 3, 3)
    result = nodes.LatentComposite().composite(below, above, 24, 16)[0]["samples"][0, 0]
    assert result.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 0], [12, 13, 14, 3]]
    outside = nodes.LatentCompositeMasked().composite(below, above, 800, 0, False)[0]["samples"]
    assert torch.equal(outside, below["samples"])


def test_feather_fades_the_inner_edges_only():
    below, above = {"samples": torch.zeros(1, 1, 4, 4)}, {"samples": torch.ones(1, 1, 4, 3)}
    result = nodes.LatentComposite().composite(below, above, 0, 0, 16)[0]["samples"][0, 0]
    assert result.tolist() == [[1, 1, 0.5, 0]] * 4


def test_masked_composite_of_a_video():
    below, above = torch.zeros(1, 2, 3, 4, 4), torch.ones(1, 2, 3, 4, 4)
    mask = torch.zeros(1, 4, 4)
    mask[..., 1:] = 0.5
    given = {"samples": below}, {"samples": above}
    result = nodes.LatentCompositeMasked().composite(*given, 0, 0, False, mask)[0]["samples"]
    assert torch.equal(result, mask.expand(1, 2, 3, 4, 4))


def test_batch_joins_indices():
    a, b = latent(2, 1, 4, 4, batch_index=[5, 6]), latent(3, 1, 8, 8)
    result = batch.LatentBatch().batch(a, b)[0]
    assert result["samples"].shape == (5, 1, 4, 4)
    assert result["batch_index"] == [5, 6, 0, 1, 2]


@pytest.mark.parametrize(
    ("given", "behavior", "expected"),
    [
        ({}, "fixed", [0, 0, 0]),
        ({"batch_index": [4, 5, 6]}, "fixed", [4, 4, 4]),
        ({"batch_index": [4, 5, 6]}, "random", None),
    ],
)
def test_seed_behavior(given, behavior, expected):
    result = batch.LatentBatchSeedBehavior().set_behavior(latent(3, 1, 2, 2, **given), behavior)[0]
    assert result.get("batch_index") == expected


def test_from_batch_takes_mask_and_indices_along():
    mask = torch.arange(2.0).reshape(2, 1, 1, 1)
    result = batch.LatentFromBatch().frombatch(latent(4, 1, 1, 1, noise_mask=mask), 1, 2)[0]
    assert result["samples"].flatten().tolist() == [1, 2]
    assert result["noise_mask"].flatten().tolist() == [1, 0]
    assert result["batch_index"] == [1, 2]
    again = batch.LatentFromBatch().frombatch(result, 9, 9)[0]
    assert (again["samples"].item(), again["batch_index"]) == (2, [2])


def test_repeat_gives_copies_indices_of_their_own():
    given = latent(2, 1, 1, 1, batch_index=[3, 5])
    result = batch.RepeatLatentBatch().repeat(given, 3)[0]
    assert result["samples"].flatten().tolist() == [0, 1, 0, 1, 0, 1]
    assert result["batch_index"] == [3, 5, 6, 8, 9, 11]


def test_interpolate_keeps_the_norm():
    """Between (2, 0) and (0, 4) at one half: direction (1, 1), norm 3."""
    a, b = torch.tensor([2.0, 0]), torch.tensor([0, 4.0])
    given = ({"samples": v.reshape(1, 2, 1, 1).expand(3, -1, -1, -1)} for v in (a, b))
    result = batch.LatentInterpolate().interpolate(*given, 0.5)[0]["samples"]
    assert result.shape == (3, 2, 1, 1)
    assert result[2].flatten().tolist() == pytest.approx([3 / 2**0.5] * 2)


def test_interpolate_of_nothing_is_nothing():
    given = {"samples": torch.zeros(1, 2, 1, 1)}
    assert batch.LatentInterpolate().interpolate(given, given, 0.5)[0]["samples"].tolist() == [[[[0]], [[0]]]]


def test_latent_file_round_trip(places):
    given = {"samples": torch.randn(1, 4, 2, 2)}
    saved = SaveLatent().save(given, "latents/x", {"1": {}}, {"workflow": {"id": 1}})["ui"]["latents"]
    assert saved == [{"filename": "x_00001_.latent", "subfolder": "latents", "type": "output"}]
    path = places.output / "latents" / "x_00001_.latent"
    with safe_open(path, "pt") as file:
        assert file.metadata() == {"prompt": json.dumps({"1": {}}), "workflow": json.dumps({"id": 1})}
    assert torch.equal(LoadLatent().load("latents/x_00001_.latent [output]")[0]["samples"], given["samples"])


def test_latent_file_of_the_first_version_is_unscaled(places):
    save_file({"latent_tensor": torch.full((1, 4, 2, 2), 0.18215)}, places.input / "x.latent")
    assert LoadLatent().load("x.latent")[0]["samples"].flatten().tolist() == pytest.approx([1] * 16)


def test_damaged_latent_file_is_named(places):
    (places.input / "x.latent").write_bytes(b"abc")
    with pytest.raises(ValueError, match=r"LoadLatent: 'x\.latent' is not a whole latent file"):
        LoadLatent().load("x.latent")
    save_file({"other": torch.zeros(1)}, places.input / "y.latent")
    with pytest.raises(ValueError, match="holds other and no latent_tensor"):
        LoadLatent().load("y.latent")
    assert LoadLatent.VALIDATE_INPUTS("z.latent") == "Invalid latent file: z.latent"
    assert LoadLatent.INPUT_TYPES()["required"]["latent"] == (["x.latent", "y.latent"],)
