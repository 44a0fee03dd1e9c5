"""The workflow inside every kind of file that ComfyUI and its savers write, and what of them is refused."""

import io
import json
import os
import struct
import zlib

import pytest
from carriers import (
    ALL,
    CANVAS,
    PROMPT,
    TAGS_IN_MP4,
    TEXTS,
    chunk,
    glb,
    helper_suite,
    latent,
    png,
    saved,
    sound,
    svg,
    video,
    with_chunks,
)
from PIL import Image
from slipstream.executor.workflow import files
from slipstream.executor.workflow.embedded import exif, kinds, recordings
from slipstream.executor.workflow.embedded import png as png_reader
from slipstream.executor.workflow.errors import WorkflowError

PLAIN = {
    "picture": [saved(kind) for kind in ("PNG", "WEBP", "JPEG")] + [png(parameters="Steps: 20")],
    "recording": [
        video("mp4", "h264", {"title": "t", "comment": "made by hand"}),
        video("webm", "libvpx-vp9", {}),
        sound("flac", "flac", {}),
        sound("mp3", "libmp3lame", {}),
        sound("opus", "libopus", {}),
        (b"\xff\xfb\x90\x64" + bytes(413)) * 5,  # MP3 without a tag
    ],
    "safetensors file": [latent({"prompt": ""}), latent({})],
    "3D model": [glb({})],
    "drawing": [b"<svg/>", b'<?xml version="1.0"?>\n<svg><metadata>m</metadata></svg>'],
}


def read(tmp_path, data, name="a.bin"):
    (tmp_path / name).write_bytes(data)
    return files.read(tmp_path / name)


def refusal(tmp_path, data):
    with pytest.raises(WorkflowError) as error:
        read(tmp_path, data)
    text = str(error.value)
    assert text.startswith(f"{tmp_path / 'a.bin'}: ")
    assert "\n" not in text
    return text.removeprefix(f"{tmp_path / 'a.bin'}: ")


@pytest.mark.parametrize("kind", ALL)
def test_every_kind(tmp_path, kind):
    file = read(tmp_path, ALL[kind])
    assert file.prompt == PROMPT
    assert file.canvas == CANVAS


@pytest.mark.parametrize("name", ["a.jpg", "a.json", "a.txt", "a"])
def test_the_name_does_not_matter(tmp_path, name):
    assert read(tmp_path, ALL["png"], name).prompt == PROMPT
    assert read(tmp_path, TEXTS["prompt"].encode(), name).prompt == PROMPT


@pytest.mark.parametrize(("carrier", "data"), [(kind, data) for kind in PLAIN for data in PLAIN[kind]])
def test_no_workflow(tmp_path, carrier, data):
    expected = f"this {carrier} carries no workflow (neither a prompt nor a workflow entry)"
    assert refusal(tmp_path, data) == expected


def test_only_one_of_the_two(tmp_path):
    assert read(tmp_path, png(workflow=TEXTS["workflow"])).prompt is None
    assert read(tmp_path, png(prompt=TEXTS["prompt"])).canvas is None
    # ComfyUI's SaveLatent writes an empty text where there was no prompt.
    file = read(tmp_path, latent({"prompt": "", "workflow": TEXTS["workflow"]}))
    assert (file.prompt, file.canvas) == (None, CANVAS)


def test_text_made_a_text_again(tmp_path):
    """What ComfyUI's SaveVideo makes of a value that was JSON text already."""
    tags = {key: json.dumps(text) for key, text in TEXTS.items()}
    file = read(tmp_path, video("mp4", "h264", tags, **TAGS_IN_MP4))
    assert (file.prompt, file.canvas) == (PROMPT, CANVAS)


@pytest.mark.parametrize("prompt", [PROMPT, TEXTS["prompt"]])
@pytest.mark.parametrize("canvas", [CANVAS, TEXTS["workflow"]])
def test_the_comment_of_videohelpersuite(tmp_path, prompt, canvas):
    comment = json.dumps({"prompt": prompt, "workflow": canvas, "CreationTime": "2025"})
    file = read(tmp_path, video("matroska", "h264", {"comment": comment}))
    assert (file.prompt, file.canvas) == (PROMPT, CANVAS)


def test_entries_of_their_own_come_before_the_comment(tmp_path):
    tags = {"prompt": TEXTS["prompt"], **helper_suite(prompt="{}")}
    assert read(tmp_path, video("mp4", "h264", tags, **TAGS_IN_MP4)).prompt == PROMPT


def test_text_beyond_ascii_however_it_is_encoded(tmp_path):
    text = json.dumps(PROMPT, ensure_ascii=False)
    assert read(tmp_path, png(prompt=text)).prompt == PROMPT  # iTXt, since € is not Latin-1
    for encoding, words in (("utf-8", text), ("latin-1", text.replace("€", ""))):
        data = with_chunks(chunk(b"tEXt", b"prompt\0" + words.encode(encoding)))
        assert read(tmp_path, data).prompt == json.loads(words)


def test_python_writes_numbers_that_json_does_not_have(tmp_path):
    """ComfyUI does so where a node's IS_CHANGED is NaN, or a value is."""
    prompt = {"1": {"class_type": "A", "inputs": {"x": float("nan")}, "is_changed": [float("nan")]}}
    text = json.dumps(prompt)
    assert "NaN" in text
    for data in (png(prompt=text), video("webm", "libvpx-vp9", {"comment": json.dumps({"prompt": text})})):
        assert read(tmp_path, data).prompt == {"1": {"class_type": "A", "inputs": {"x": None}}}


def test_exif_in_png(tmp_path):
    exif_data = Image.Exif()
    exif_data[0x0110] = "prompt:" + TEXTS["prompt"]
    assert read(tmp_path, saved("PNG", exif=exif_data)).prompt == PROMPT


def test_svg_entries_as_text(tmp_path):
    assert read(tmp_path, svg(TEXTS)).prompt == PROMPT


# Damage


@pytest.mark.parametrize("damaged", ["prompt", "workflow"])
def test_where_one_entry_is_damaged_the_other_is_taken(tmp_path, damaged):
    file = read(tmp_path, png(**(TEXTS | {damaged: '{"1": '})))
    assert (file.prompt is None, file.canvas is None) == (damaged == "prompt", damaged == "workflow")


def test_a_damaged_entry_is_named(tmp_path):
    message = "its prompt is not JSON: Expecting value at line 1 column 6"
    assert refusal(tmp_path, png(prompt='{"1": ')) == message
    assert refusal(tmp_path, png(workflow="[]", prompt="")) == "its workflow is not a JSON object"


def test_what_stands_before_the_damage_is_read(tmp_path):
    data = ALL["png"]
    assert read(tmp_path, data[: data.index(b"IDAT") + 6]).prompt == PROMPT
    assert refusal(tmp_path, ALL["apng"][:100]) == "damaged: the file breaks off"


@pytest.mark.parametrize(
    ("kind", "length", "message"),
    [
        ("png", 50, "damaged: the file breaks off"),
        ("webp", 60, "damaged: the file breaks off"),
        ("jpeg", 60, "damaged: the file breaks off"),
        ("avif", 40, "damaged: the file breaks off"),
        ("mp4", 300, "cannot be read as a recording: "),
        ("webm", 30, "cannot be read as a recording: "),
        ("opus", 30, "cannot be read as a recording: "),
        ("latent", 40, "damaged: the file breaks off"),
        ("glb", 40, "damaged: the file breaks off"),
    ],
)
def test_a_file_that_breaks_off(tmp_path, kind, length, message):
    if kind not in ALL:
        pytest.skip("this Pillow writes no AVIF")
    assert refusal(tmp_path, ALL[kind][:length]).startswith(message)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "the file is empty"),
        (b"GIF89a\x08\0\x08\0\xf7\0\0", "neither JSON text nor a kind of file that carries a workflow"),
        (b"PK\x03\x04\xff\xff", "neither JSON text nor a kind of file that carries a workflow"),
        (b"<!DOCTYPE html><p>", "not JSON: markup, such as a page of HTML"),
        (struct.pack("<Q", 9) + b"{damaged}", "damaged: its header is not JSON"),
        (b"\xff\xd8\xff\xe0\0\2\0\0", "damaged: a JPEG marker is missing"),
    ],
)
def test_other_files(tmp_path, data, message):
    assert refusal(tmp_path, data) == message


# Limits


@pytest.mark.parametrize("kind", ["zTXt", "iTXt"])
def test_compressed_texts_do_not_inflate_without_end(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(png_reader, "INFLATED", 2**20)
    bomb = zlib.compress(b'{"a": "' + b" " * png_reader.INFLATED)
    data = (b"prompt\0\0" if kind == "zTXt" else b"prompt\0\1\0\0\0") + bomb
    assert len(data) < 2000
    assert refusal(tmp_path, with_chunks(chunk(kind.encode(), data))).startswith("not read: compressed texts")


def test_compressed_texts_share_the_limit(tmp_path, monkeypatch):
    monkeypatch.setattr(png_reader, "INFLATED", 5000)
    bomb = chunk(b"zTXt", b"prompt\0\0" + zlib.compress(b" " * 3000))
    assert "carries no workflow" in refusal(tmp_path, with_chunks(bomb))
    assert refusal(tmp_path, with_chunks(bomb, bomb)).startswith("not read: compressed texts")


def test_exif_values_that_overlap_are_not_longer_than_the_data():
    count, length = 2000, 50_000
    entry = struct.pack("<HHII", 0x010E, 2, length, 0)
    data = b"II*\0" + struct.pack("<IH", 8, count) + entry * count + b"{" * length
    assert sum(len(text) for _, text in exif.entries(data)) <= len(data)


@pytest.mark.parametrize("kind", ["png", "jpeg", "webp", "latent", "glb"])
def test_a_length_that_is_claimed_is_not_believed(tmp_path, kind):
    claims = {
        "png": with_chunks(struct.pack(">I4s", 2**31 - 1, b"tEXt")),
        "jpeg": b"\xff\xd8\xff\xe1\xff\xff" + b"Exif\0\0",
        "webp": b"RIFF\xff\xff\xff\xffWEBPEXIF\xff\xff\xff\xff",
        "latent": struct.pack("<Q", 2**32 - 1) + b"{}",
        "glb": struct.pack("<4sIII4s", b"glTF", 2, 2**32 - 1, 2**32 - 1, b"JSON"),
    }
    assert refusal(tmp_path, claims[kind]).startswith(("not read: ", "damaged: "))


class Counted(io.FileIO):
    """A file that counts the bytes read from it."""

    count = 0

    def readinto(self, buffer):
        length = super().readinto(buffer)
        self.count += length
        return length


HOLE = 5 * 2**30  # bytes


@pytest.mark.parametrize("kind", ["mp4", "webm", "png", "flac", "latent"])
def test_of_large_files_only_the_metadata_are_read(tmp_path, kind, monkeypatch):
    """A hole of 5 GB: in MP4 before the tags, where the pixels are, elsewhere after them. In the FLAC file
    FFmpeg looks for sound there."""
    monkeypatch.setattr(recordings, "READ", 2**20)
    data = ALL[kind]
    at = data.index(b"moov") - 4 if kind == "mp4" else len(data)
    with (tmp_path / "large").open("wb") as file:
        file.write(data[:at])
        if kind == "mp4":
            file.write(struct.pack(">I4sQ", 1, b"mdat", HOLE))
            os.ftruncate(file.fileno(), at + HOLE)
            file.seek(at + HOLE)
            file.write(data[at:])
        else:
            os.ftruncate(file.fileno(), HOLE)
    raw = Counted(tmp_path / "large")
    with io.BufferedReader(raw) as file:
        assert kinds.read(file) == {"prompt": PROMPT, "workflow": CANVAS}
    assert raw.count < 2**21
