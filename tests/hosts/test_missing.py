import pytest
from slipstream.executor.hosts import bundled, missing


def test_core_list_is_comfyuis():
    assert len(missing.core()) == 495
    assert {"KSampler", "Epsilon Scaling", "WanImageToVideo"} <= missing.core()


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("VHS_VideoCombine", "ComfyUI-VideoHelperSuite"),
        ("UnetLoaderGGUF", "ComfyUI-GGUF"),
        ("Seed (rgthree)", "rgthree-comfy"),
        ("WanVideoSampler", "ComfyUI-WanVideoWrapper"),
        ("NunchakuFluxDiTLoader", "ComfyUI-nunchaku"),
        ("Hunyuan3Dv2Conditioning", "comes with ComfyUI"),
    ],
)
def test_says_where_a_class_is(name, source):
    sentence = bundled.host().missing(name)
    assert sentence.startswith(name)
    assert source in sentence
    assert "not among the bundled nodes" in sentence


def test_suggests_a_near_name():
    assert "did you mean SaveImage?" in bundled.host().missing("SaveImages")
    assert "did you mean" not in bundled.host().missing("Zzzzqqq")
