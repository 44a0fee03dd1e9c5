import hashlib
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from slipstream.executor import context
from slipstream.executor.graph import Engine, validate
from slipstream.executor.library.animation import SaveAnimatedPNG, SaveAnimatedWEBP
from slipstream.executor.library.image_io import (
    LoadImage,
    LoadImageMask,
    LoadImageOutput,
    MaskPreview,
    PreviewImage,
    SaveImage,
)
from slipstream.executor.models import folders
from slipstream.executor.workflow.embedded import kinds

# The text chunks of a picture that ComfyUI's server saved.
PROMPT_CHUNK = (
    '{"1": {"class_type": "EmptyImage", "inputs": {"width": 64, "height": 64, "batch_size": 1, '
    '"color": 933311}}, "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], '
    '"filename_prefix": "cap/x"}}}'
)
WORKFLOW_CHUNK = '{"id": "wf1"}'
PROMPT = json.loads(PROMPT_CHUNK)
WORKFLOW = json.loads(WORKFLOW_CHUNK)


def levels(height=5, width=7, channels=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (height, width, channels), dtype=np.uint8)


def put(places, picture, name="x.png", **options):
    picture.save(places.input / name, **options)
    return name


def test_through_the_engine(places):
    """Both nodes in a prompt: what the saved picture carries is the prompt that made it."""
    name = put(places, Image.fromarray(levels()))
    prompt = {
        "1": {"class_type": "LoadImage", "inputs": {"image": name}},
        "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "y"}},
    }
    nodes = {"LoadImage": LoadImage, "SaveImage": SaveImage}
    validation = validate(prompt, nodes)
    extra_data = {"extra_pnginfo": {"workflow": WORKFLOW}}
    result = Engine(nodes).run(prompt, outputs=validation.outputs, extra_data=extra_data)
    assert result.outputs["2"]["images"] == [{"filename": "y_00001_.png", "subfolder": "", "type": "output"}]
    with (places.output / "y_00001_.png").open("rb") as file:
        assert kinds.read(file) == {"prompt": prompt, "workflow": WORKFLOW}


# Saving


def test_eight_bit_round_trip_is_exact(places):
    image = torch.arange(256, dtype=torch.float32).reshape(1, 16, 16, 1).expand(-1, -1, -1, 3) / 255
    saved = SaveImage().save_images(image)["ui"]["images"]
    assert saved == [{"filename": "ComfyUI_00001_.png", "subfolder": "", "type": "output"}]
    loaded, mask = LoadImage().load_image("ComfyUI_00001_.png [output]")
    assert torch.equal(loaded, image)
    assert torch.equal(mask, torch.zeros(1, 64, 64))


def test_levels_between_are_cut_off_and_out_of_range_clipped(places):
    image = torch.tensor([-1.0, 0.5, 1.999 / 255, 7.0]).reshape(1, 1, 4, 1).expand(-1, -1, -1, 3)
    SaveImage().save_images(image)
    with Image.open(places.output / "ComfyUI_00001_.png") as picture:
        assert np.array(picture)[0, :, 0].tolist() == [0, 127, 1, 255]


def test_text_chunks_are_those_of_comfyui(places):
    SaveImage().save_images(torch.zeros(1, 4, 4, 3), "cap/x", PROMPT, {"workflow": WORKFLOW})
    with Image.open(places.output / "cap" / "x_00001_.png") as picture:
        picture.load()
        assert list(picture.text.items()) == [("prompt", PROMPT_CHUNK), ("workflow", WORKFLOW_CHUNK)]


def test_batch_gets_a_file_each(places):
    saved = SaveImage().save_images(torch.rand(3, 4, 4, 3), "b%batch_num%_%width%x%height%")["ui"]["images"]
    assert [entry["filename"] for entry in saved] == [
        "b0_4x4_00001_.png",
        "b1_4x4_00002_.png",
        "b2_4x4_00003_.png",
    ]


def test_alpha_is_kept(places):
    image = torch.from_numpy(levels(channels=4).astype(np.float32) / 255).unsqueeze(0)
    SaveImage().save_images(image)
    loaded, mask = LoadImage().load_image("ComfyUI_00001_.png [output]")
    assert torch.equal(loaded, image[..., :3])
    assert torch.equal(mask, 1 - image[..., 3])


def test_previews_go_to_temp_under_a_name_of_their_node(places):
    node = PreviewImage()
    first, second = (node.save_images(torch.zeros(1, 4, 4, 3))["ui"]["images"][0] for _ in range(2))
    assert first["type"] == "temp"
    stem, _, number = first["filename"].rpartition("_00001_")
    assert stem.startswith("ComfyUI_temp_")
    assert number == ".png"
    assert second["filename"] == f"{stem}_00002_.png"
    assert (places.temp / second["filename"]).is_file()


def test_mask_preview_is_grey(places):
    saved = MaskPreview().preview_mask(torch.full((4, 6), 0.5))["ui"]["images"][0]
    with Image.open(places.temp / saved["filename"]) as picture:
        assert picture.size == (6, 4)
        assert np.unique(np.array(picture)).tolist() == [127]


def test_cancelled_between_images_leaves_whole_files_only(places):
    asked = iter([False, True])
    node_context = context.NodeContext("p", "1", lambda *progress: None, lambda: next(asked))
    with context.entered(node_context), pytest.raises(context.Interrupted):
        SaveImage().save_images(torch.zeros(3, 4, 4, 3))
    assert [path.name for path in places.output.iterdir()] == ["ComfyUI_00001_.png"]


def test_animated_png(places):
    frames = torch.from_numpy(np.stack([levels(seed=seed) for seed in range(3)]).astype(np.float32) / 255)
    result = SaveAnimatedPNG().save_images(frames, "a", 4.0, 1, PROMPT, {"workflow": WORKFLOW})
    assert result["ui"]["animated"] == (True,)
    path = places.output / result["ui"]["images"][0]["filename"]
    with Image.open(path) as picture:
        assert picture.n_frames == 3
        assert picture.info["duration"] == 250
    check_embedded(path)
    assert torch.equal(LoadImage().load_image("a_00001_.png [output]")[0], frames)


def test_animated_webp(places):
    frames = torch.from_numpy(np.stack([levels(seed=seed) for seed in range(3)]).astype(np.float32) / 255)
    result = SaveAnimatedWEBP().save_images(
        frames, "a", 10.0, True, 80, "fastest", PROMPT, {"workflow": WORKFLOW}
    )
    path = places.output / result["ui"]["images"][0]["filename"]
    with Image.open(path) as picture:
        exif = picture.getexif()
        assert exif[0x0110] == f"prompt:{json.dumps(PROMPT)}"
        assert exif[0x010F] == f"workflow:{json.dumps(WORKFLOW)}"
    check_embedded(path)
    assert torch.equal(LoadImage().load_image("a_00001_.webp [output]")[0], frames)


def check_embedded(path: Path):
    """What this project itself finds when the picture is opened as a workflow."""
    with path.open("rb") as file:
        assert kinds.read(file) == {"prompt": PROMPT, "workflow": WORKFLOW}


# Loading


def test_palette_with_transparency(places):
    picture = Image.new("P", (2, 1))
    picture.putpalette([255, 0, 0, 0, 255, 0])
    picture.putdata([0, 1])
    image, mask = LoadImage().load_image(put(places, picture, transparency=1))
    assert image.tolist() == [[[[1, 0, 0], [0, 1, 0]]]]
    assert mask.tolist() == [[[0, 1]]]


def test_grey_alpha(places):
    picture = Image.fromarray(levels(channels=2), "LA")
    image, mask = LoadImage().load_image(put(places, picture))
    assert torch.equal(image[..., 0], image[..., 2])
    assert torch.equal(mask[0], 1 - torch.from_numpy(levels(channels=2)[..., 1].astype(np.float32) / 255))


def test_turned_upright(places):
    exif = Image.Exif()
    exif[0x0112] = 6  # to be turned by 90 degrees clockwise
    picture = Image.fromarray(levels())
    image, _ = LoadImage().load_image(put(places, picture, exif=exif))
    assert torch.equal(image[0], torch.from_numpy(np.rot90(levels(), -1).astype(np.float32) / 255))


def test_animation_is_a_batch(places):
    first, second = (Image.fromarray(levels(seed=seed)) for seed in range(2))
    name = put(places, first, "x.webp", save_all=True, append_images=[second], lossless=True)
    image, mask = LoadImage().load_image(name)
    assert torch.equal(image[1], torch.from_numpy(levels(seed=1).astype(np.float32) / 255))
    assert mask.shape == (2, 64, 64)


def test_animation_with_alpha_in_some_frames(places):
    opaque = Image.fromarray(levels())
    clear = Image.fromarray(levels(channels=4))
    name = put(places, opaque, save_all=True, append_images=[clear], default_image=False)
    image, mask = LoadImage().load_image(name)
    assert image.shape == (2, 5, 7, 3)
    assert mask.shape == (2, 5, 7)


def test_further_views_of_a_photograph_are_left_out(places):
    first, second = (Image.fromarray(levels(16, 16, seed=seed)) for seed in range(2))
    name = put(places, first, "x.mpo", save_all=True, append_images=[second])
    assert LoadImage().load_image(name)[0].shape == (1, 16, 16, 3)


@pytest.mark.parametrize("channel", LoadImageMask.CHANNELS)
def test_mask_of_a_channel(places, channel):
    name = put(places, Image.fromarray(levels(channels=4)))
    mask = LoadImageMask().load_image(name, channel)[0]
    expected = torch.from_numpy(levels(channels=4).astype(np.float32) / 255)
    expected = 1 - expected[..., 3] if channel == "alpha" else expected[..., "rgb".index(channel[0])]
    assert torch.equal(mask[0], expected)


def test_mask_of_an_opaque_picture_selects_nothing(places):
    name = put(places, Image.fromarray(levels()))
    assert LoadImageMask().load_image(name, "alpha")[0].tolist() == torch.zeros(1, 5, 7).tolist()


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
@pytest.mark.parametrize("suffix", ["png", "jpg", "webp", "gif", "bmp", "tiff"])
@pytest.mark.parametrize("kept", [0, 3, 40, 600])
def test_damaged_picture_is_named(places, suffix, kept):
    name = put(places, Image.fromarray(levels(64, 64)), f"x.{suffix}")
    path = places.input / name
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(ValueError, match=rf"LoadImage: 'x.{suffix}' cannot be read as a picture"):
        LoadImage().load_image(name)


def test_runs_again_when_the_content_changes(places):
    name = put(places, Image.fromarray(levels()))
    expected = hashlib.sha256((places.input / name).read_bytes()).hexdigest()
    assert LoadImage.IS_CHANGED(name) == LoadImageMask.IS_CHANGED(name, "red") == expected
    put(places, Image.fromarray(levels(seed=1)))
    assert LoadImage.IS_CHANGED(name) != expected


@pytest.mark.parametrize("name", ["nothing.png", "../secret.png", "/etc/passwd", "x.png [temp]"])
@pytest.mark.parametrize("node", [LoadImage, LoadImageMask, LoadImageOutput])
def test_validation_names_the_file(places, node, name):
    Image.new("RGB", (1, 1)).save(places.input.parent / "secret.png")
    assert node.VALIDATE_INPUTS(name) == f"Invalid image file: {name}"
    with pytest.raises((FileNotFoundError, folders.OutsideFolder)):
        node().load_image(name, *(["red"] if node is LoadImageMask else []))


def test_a_symlink_out_of_the_directory_is_not_followed(places):
    outside = places.input.parent / "secret.png"
    Image.new("RGB", (1, 1)).save(outside)
    (places.input / "x.png").symlink_to(outside)
    assert LoadImage.VALIDATE_INPUTS("x.png") == "Invalid image file: x.png"


def test_validation_passes_what_is_there_or_linked(places):
    name = put(places, Image.fromarray(levels()))
    assert LoadImage.VALIDATE_INPUTS(name) is True
    assert LoadImage.VALIDATE_INPUTS(None) is True


def test_only_pictures_are_offered(places):
    for name in ("b.png", "a.JPG", "c.webp", "d.txt", "e.latent"):
        (places.input / name).touch()
    assert LoadImage.INPUT_TYPES()["required"]["image"][0] == ["a.JPG", "b.png", "c.webp"]


def test_long_texts_do_not_hinder(places):
    info = PngInfo()
    info.add_text("workflow", "x" * (2 << 20), zip=False)
    assert LoadImage().load_image(put(places, Image.fromarray(levels()), pnginfo=info))[0].shape == (
        1,
        5,
        7,
        3,
    )
