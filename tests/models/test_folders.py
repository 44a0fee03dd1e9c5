import os
import subprocess
import sys
import time

import pytest
from slipstream.executor.models import folders
from slipstream.executor.models.folders import Folders, ModelNotFound, OutsideFolder


def touch(path):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_listing_and_looking_up(tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    first = touch(one / "checkpoints" / "a.safetensors")
    touch(two / "checkpoints" / "a.safetensors")
    deep = touch(two / "checkpoints" / "sub" / "deeper" / "b.CKPT")
    touch(one / "checkpoints" / "notes.txt")
    touch(one / "checkpoints" / ".git" / "c.safetensors")
    folders.use(Folders(models=[one, two]))
    names = folders.names("checkpoints")
    assert names[:1] == ["a.safetensors"] and "sub/deeper/b.CKPT" in names and len(set(names)) == len(names)
    assert not {"notes.txt", ".git/c.safetensors"} & set(names)
    assert folders.find("checkpoints", "a.safetensors") == first
    assert folders.find("checkpoints", "sub/deeper/b.CKPT") == deep


def test_aliases_share_their_folders(tmp_path):
    touch(tmp_path / "unet" / "a.safetensors")
    touch(tmp_path / "diffusion_models" / "b.safetensors")
    touch(tmp_path / "clip" / "c.safetensors")
    folders.use(Folders(models=[tmp_path]))
    assert folders.names("unet") == folders.names("diffusion_models") == ["a.safetensors", "b.safetensors"]
    assert folders.names("text_encoders") == ["c.safetensors"]


def test_new_files_are_seen(tmp_path):
    folders.use(Folders(models=[tmp_path]))
    assert folders.names("loras") == []
    old = time.time() - 100
    touch(tmp_path / "loras" / "a.safetensors")
    os.utime(tmp_path / "loras", (old, old))  # as if it had been there for long
    assert folders.names("loras") == ["a.safetensors"]
    assert folders.names("loras") == ["a.safetensors"]
    touch(tmp_path / "loras" / "b.safetensors")
    assert folders.names("loras") == ["a.safetensors", "b.safetensors"]


def test_a_link_to_a_parent_folder_ends(tmp_path):
    touch(tmp_path / "loras" / "a.safetensors")
    (tmp_path / "loras" / "again").symlink_to(tmp_path / "loras", target_is_directory=True)
    folders.use(Folders(models=[tmp_path]))
    assert folders.names("loras") == ["a.safetensors"]


def test_what_is_not_there_names_near_matches_and_places(tmp_path):
    touch(tmp_path / "checkpoints" / "xl" / "dream_shaper.safetensors")
    folders.use(Folders(models=[tmp_path]))
    with pytest.raises(ModelNotFound) as error:
        folders.find("checkpoints", "dream_shaper.safetensors")
    assert "xl/dream_shaper.safetensors" in str(error.value)
    assert str(tmp_path / "checkpoints") in str(error.value)
    with pytest.raises(ModelNotFound, match=r"dream_shaper"):
        folders.find("checkpoints", "xl/dreamshaper.safetensors")
    for name in ("../secret.safetensors", str(tmp_path / "checkpoints" / "xl")):
        with pytest.raises(ModelNotFound):
            folders.find("checkpoints", name)
    with pytest.raises(ModelNotFound, match="unknown kind"):
        folders.names("models")


def test_pipelines_are_one_entry_wherever_they_lie(tmp_path):
    for place in ("checkpoints/inside", "diffusers/own/flux", "at_root"):
        touch(tmp_path / place / "model_index.json")
        touch(tmp_path / place / "vae" / "diffusion_pytorch_model.safetensors")
    folders.use(Folders(models=[tmp_path]))
    for kind in ("checkpoints", "diffusers"):
        assert {"inside", "own/flux", "at_root"} <= set(folders.names(kind))
        assert not any(name.endswith(".safetensors") for name in folders.names(kind))
    assert folders.find("checkpoints", "own/flux") == tmp_path / "diffusers" / "own" / "flux"
    assert folders.find("diffusers", "at_root") == tmp_path / "at_root"


def test_extra_model_paths(tmp_path, monkeypatch):
    monkeypatch.setenv("ELSEWHERE", str(tmp_path / "env"))
    config = tmp_path / "extra_model_paths.yaml"
    config.write_text(
        """
webui:
    base_path: other
    checkpoints: sd
    loras: |
        lora
        lycoris
fast:
    base_path: $ELSEWHERE
    is_default: true
    clip: text
    my_kind: mine
empty:
""",
        encoding="utf-8",
    )
    for place in (
        "other/sd/a.ckpt",
        "other/lora/b.pt",
        "other/lycoris/c.pt",
        "env/text/d.pt",
        "env/mine/e.pt",
    ):
        touch(tmp_path / place)
    touch(tmp_path / "models" / "clip" / "d.pt")
    folders.use(Folders(models=[tmp_path / "models"], extra=[config]))
    assert "a.ckpt" in folders.names("checkpoints")
    assert folders.names("loras") == ["b.pt", "c.pt"]
    assert folders.find("text_encoders", "d.pt") == tmp_path / "env" / "text" / "d.pt"
    assert folders.names("my_kind") == ["e.pt"]


@pytest.mark.parametrize("text", ["a: [1", "- 1", "a: text", "a: {loras: [x]}"])
def test_a_bad_extra_model_paths_names_the_file(text, tmp_path):
    config = tmp_path / "extra.yaml"
    config.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"extra\.yaml"):
        folders.use(Folders(extra=[config]))
        folders.names("loras")


@pytest.fixture
def places(tmp_path):
    made = Folders(input=tmp_path / "in", output=tmp_path / "out", temp=tmp_path / "tmp")
    for place in ("in/a.png", "in/sub/b.png", "out/c.png", "tmp/d.png", "secret.png"):
        touch(tmp_path / place)
    folders.use(made)
    return tmp_path


def test_input_files(places):
    assert folders.input_names() == ["a.png"]
    assert folders.input_file("a.png") == places / "in" / "a.png"
    assert folders.input_file("sub/b.png") == places / "in" / "sub" / "b.png"
    assert folders.input_file("c.png [output]") == places / "out" / "c.png"
    assert folders.input_file("d.png [temp]") == places / "tmp" / "d.png"
    with pytest.raises(FileNotFoundError, match=r"none\.png"):
        folders.input_file("none.png")


def test_input_files_stay_inside(places):
    (places / "in" / "link.png").symlink_to(places / "secret.png")
    (places / "in" / "up").symlink_to(places, target_is_directory=True)
    (places / "in" / "loop").symlink_to("loop")
    for name in (
        "../secret.png",
        str(places / "secret.png"),
        "link.png",
        "up/secret.png",
        "../c.png [output]",
        "x" * 300,
        "x" * 300 + "/c.png",
        "a\0b",
        "loop/c.png",
    ):
        with pytest.raises(OutsideFolder):
            folders.input_file(name)
    with pytest.raises(OutsideFolder, match="input, output or temp"):
        folders.by_type("models")


def test_saved_files_count_on(tmp_path):
    assert folders.save_path("pic", tmp_path) == (tmp_path, "pic", 1, "")
    for name in ("pic_00001_.png", "pic_00007_.webp", "pic_x_.png", "pict_00050_.png", "pic_00099.png"):
        touch(tmp_path / name)
    assert folders.save_path("pic", tmp_path)[2] == 8
    assert folders.save_path("pic_00007", tmp_path)[2] == 1


def test_saved_files_go_into_subfolders_but_not_out(tmp_path):
    out = tmp_path / "out"
    folder, stem, counter, subfolder = folders.save_path("day/one/pic", out)
    assert (folder, stem, counter, subfolder) == (out / "day" / "one", "pic", 1, "day/one")
    assert folder.is_dir()
    (out / "link").symlink_to(tmp_path, target_is_directory=True)
    for prefix in ("../pic", "/tmp/pic", "link/pic", "a/../../pic"):
        with pytest.raises(OutsideFolder):
            folders.save_path(prefix, out)


def test_tokens_in_names(tmp_path, monkeypatch):
    moment = time.struct_time((2024, 3, 5, 7, 8, 9, 1, 65, 0))
    monkeypatch.setattr(time, "localtime", lambda: moment)

    def stem(prefix):
        return folders.save_path(prefix, tmp_path, 64, 32)[1]

    assert stem("%year%-%month%-%day%_%hour%%minute%%second%_%width%x%height%") == "2024-03-05_070809_64x32"
    assert stem("%date:yyyy-MM-dd hh-mm-ss% %date:yy_M_d%") == "2024-03-05 07-08-09 24_3_5"


def test_no_torch():
    code = "import sys, slipstream.executor.models.folders; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
