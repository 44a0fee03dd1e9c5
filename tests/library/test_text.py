"""What the prompt nodes hand to CLIP, and what they write into CONDITIONING."""

import pytest
import torch
from slipstream.executor.library import text


class Clip:
    """Splits prompts into chunks of one word, as many as there are, for the named text models."""

    def __init__(self, *names):
        self.names = names

    def tokenize(self, prompt):
        prompts = dict.fromkeys(self.names, prompt) if isinstance(prompt, str) else prompt
        return {name: [f"{name}:{word}" for word in prompts[name].split(" ")] for name in self.names}

    def encode(self, tokens, **extra):
        return [[tokens, extra]]

    def with_last_layer(self, layer):
        return ("clip", layer)


def test_clip_text_encode():
    assert text.CLIPTextEncode().encode(Clip("l"), "a b") == ([[{"l": ["l:a", "l:b"]}, {}]],)


def test_flux_has_a_prompt_for_each_model_and_guidance():
    ((entry,),) = text.CLIPTextEncodeFlux().encode(Clip("l", "t5xxl"), "small", "a long", 2.5)
    assert entry == [{"l": ["l:small"], "t5xxl": ["t5xxl:a", "t5xxl:long"]}, {"guidance": 2.5}]


def test_sdxl_fills_the_shorter_prompt_with_empty_chunks():
    sizes = {"width": 1, "height": 2, "crop_w": 3, "crop_h": 4, "target_width": 5, "target_height": 6}
    ((entry,),) = text.CLIPTextEncodeSDXL().encode(Clip("l", "g"), text_g="a b c", text_l="x", **sizes)
    assert entry == [{"l": ["l:x", "l:", "l:"], "g": ["g:a", "g:b", "g:c"]}, sizes]


@pytest.mark.parametrize(
    ("padding", "prompts", "expected"),
    [
        ("empty_prompt", ("", "", ""), {"l": ["l:"], "g": ["g:"], "t5xxl": ["t5xxl:"]}),
        ("none", ("", "", ""), {"l": [], "g": [], "t5xxl": []}),
        ("none", ("a", "", "b"), {"l": ["l:a"], "g": ["g:"], "t5xxl": ["t5xxl:b"]}),
        ("none", ("", "a b", ""), {"l": ["l:", "l:"], "g": ["g:a", "g:b"], "t5xxl": []}),
    ],
)
def test_sd3_leaves_out_models_with_empty_prompts_where_told(padding, prompts, expected):
    ((entry,),) = text.CLIPTextEncodeSD3().encode(Clip("l", "g", "t5xxl"), *prompts, padding)
    assert entry == [expected, {}]


def test_guidance_is_set_on_every_entry_of_a_copy():
    cond = torch.zeros(1)
    conditioning = [[cond, {"guidance": 1.0, "x": 1}], [cond, {}]]
    (changed,) = text.FluxGuidance().append(conditioning, 4.0)
    assert [options for _, options in changed] == [{"guidance": 4.0, "x": 1}, {"guidance": 4.0}]
    (disabled,) = text.FluxDisableGuidance().append(conditioning)
    assert [options["guidance"] for _, options in disabled] == [None, None]
    assert conditioning[0][1]["guidance"] == 1.0 and changed[0][0] is cond


def test_last_layer():
    assert text.CLIPSetLastLayer().set_last_layer(Clip("l"), -2) == (("clip", -2),)
