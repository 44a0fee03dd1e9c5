"""Prompts as diffusers' pipelines encode them; weights and embeddings by their formulas."""

import gzip
import logging

import pytest
import torch
from safetensors.torch import save_file
from slipstream.executor.models import files, folders, pipeline_folder, text_files, tokenizers
from slipstream.executor.models.text import USES, TextEncoder, TextModel

WORDS = ["a", "red", "circle", "blue", "square", "on", "grass"]
PROMPT = "a red circle on grass"
TOLERANCE = 1e-5


def clip_model(width, randomised, seed, projected=False, **config):
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPTextModelWithProjection

    kind = CLIPTextModelWithProjection if projected else CLIPTextModel
    settings = {
        "vocab_size": 10,
        "hidden_size": width,
        "intermediate_size": 48,
        "num_hidden_layers": 3,
        "num_attention_heads": 2,
        "max_position_embeddings": 9,
        "projection_dim": width,
        "bos_token_id": 0,
        "eos_token_id": 1,
        **config,
    }
    return randomised(kind(CLIPTextConfig(**settings)), seed)


def t5_model(width, randomised):
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": width, "d_kv": 8, "d_ff": 32, "num_layers": 2, "num_heads": 2}
    config = T5Config(vocab_size=10, feed_forward_proj="gated-gelu", **sizes)
    model = randomised(T5EncoderModel(config), 5)
    model.encoder.embed_tokens.weight = model.shared.weight
    return model


def text_model(name, kind, model, folder, tmp_path):
    """A transformers model saved to a folder and loaded from there, with the tokenizer in `folder`."""
    model.save_pretrained(tmp_path / f"saved_{name}")
    use = USES[kind][name]
    return pipeline_folder._text_model(name, tmp_path / f"saved_{name}", folder, use)


def transformers_tokenizer(folder, length):
    from transformers import PreTrainedTokenizerFast

    return PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "tokenizer.json"),
        pad_token="<end>",
        eos_token="<end>",
        model_max_length=length,
    )


@pytest.fixture
def clip_folder(word_tokenizer):
    return word_tokenizer(WORDS, 9)


@pytest.fixture
def t5_folder(word_tokenizer):
    return word_tokenizer(WORDS, 512, "tokenizer_t5", start=False)


def encode(encoder, prompt):
    [[cond, options]] = encoder.encode(encoder.tokenize(prompt))
    return cond, options["pooled_output"]


def same(ours, theirs):
    assert ours.shape == theirs.shape
    assert (ours - theirs).abs().max() < TOLERANCE


def test_one_clip_gives_its_sequence_and_pooled_vector(clip_folder, tmp_path, randomised):
    model = clip_model(16, randomised, 1)
    encoder = TextEncoder("single", (text_model("l", "single", model, clip_folder, tmp_path),))
    given = transformers_tokenizer(clip_folder, 9)(PROMPT, padding="max_length", return_tensors="pt")
    with torch.no_grad():
        expected = model(given.input_ids, output_hidden_states=True)
    cond, pooled = encode(encoder, PROMPT)
    same(cond, expected.last_hidden_state)
    same(pooled, expected.pooler_output)
    # Skipping the last layer: the one before through the final norm.
    cond, pooled = encode(encoder.with_last_layer(-2), PROMPT)
    norm = getattr(model, "text_model", model).final_layer_norm
    same(cond, norm(expected.hidden_states[-2]))
    same(pooled, expected.pooler_output)
    # More layers than there are: none is skipped.
    same(encode(encoder.with_last_layer(-4), PROMPT)[0], expected.last_hidden_state)


@pytest.mark.slow
def test_stable_diffusion_xl(clip_folder, tmp_path, randomised):
    from diffusers import StableDiffusionXLPipeline

    small = clip_model(16, randomised, 1)
    large = clip_model(24, randomised, 2, projected=True)
    tokenizer = transformers_tokenizer(clip_folder, 9)
    pipe = StableDiffusionXLPipeline(None, small, large, tokenizer, tokenizer, None, None)
    models = [
        text_model("l", "sdxl", small, clip_folder, tmp_path),
        text_model("g", "sdxl", large, clip_folder, tmp_path),
    ]
    with torch.no_grad():
        theirs, _, pooled, _ = pipe.encode_prompt(PROMPT, device="cpu", do_classifier_free_guidance=False)
    ours = encode(TextEncoder("sdxl", tuple(models)), PROMPT)
    same(ours[0], theirs)
    same(ours[1], pooled)


@pytest.mark.slow
def test_stable_diffusion_3(clip_folder, t5_folder, tmp_path, randomised):
    from diffusers import StableDiffusion3Pipeline

    small = clip_model(16, randomised, 1, projected=True)
    large = clip_model(24, randomised, 2, projected=True)
    t5 = t5_model(48, randomised)
    tokenizer, tokenizer_t5 = transformers_tokenizer(clip_folder, 9), transformers_tokenizer(t5_folder, 512)
    pipe = StableDiffusion3Pipeline(None, None, None, small, tokenizer, large, tokenizer, t5, tokenizer_t5)
    pipe.tokenizer_max_length = 9
    models = [
        text_model("l", "sd3", small, clip_folder, tmp_path),
        text_model("g", "sd3", large, clip_folder, tmp_path),
        text_model("t5xxl", "sd3", t5, t5_folder, tmp_path),
    ]
    with torch.no_grad():
        theirs, _, pooled, _ = pipe.encode_prompt(
            PROMPT, None, None, device="cpu", do_classifier_free_guidance=False, max_sequence_length=77
        )
    ours = encode(TextEncoder("sd3", tuple(models)), PROMPT)
    same(ours[0], theirs)
    same(ours[1], pooled)


@pytest.mark.slow
def test_flux(clip_folder, t5_folder, tmp_path, randomised):
    from diffusers import FluxPipeline

    clip, t5 = clip_model(16, randomised, 1), t5_model(48, randomised)
    tokenizer, tokenizer_t5 = transformers_tokenizer(clip_folder, 9), transformers_tokenizer(t5_folder, 512)
    pipe = FluxPipeline(None, None, clip, tokenizer, t5, tokenizer_t5, None)
    models = (
        text_model("l", "flux", clip, clip_folder, tmp_path),
        text_model("t5xxl", "flux", t5, t5_folder, tmp_path),
    )
    with torch.no_grad():
        theirs, pooled, _ = pipe.encode_prompt(PROMPT, None, device="cpu", max_sequence_length=256)
    ours = encode(TextEncoder("flux", models), PROMPT)
    same(ours[0], theirs)
    same(ours[1], pooled)


def test_weights_lead_away_from_the_empty_prompt(clip_folder, tmp_path, randomised):
    model = text_model("l", "single", clip_model(16, randomised, 1), clip_folder, tmp_path)
    encoder = TextEncoder("single", (model,))
    plain, _ = encode(encoder, PROMPT)
    empty, _ = encode(encoder, "")
    weighted, _ = encode(encoder, "a (red:1.5) (circle on:0.3) grass")
    factor = torch.tensor([1, 1, 1.5, 0.3, 0.3, 1, 1, 1, 1])[None, :, None]
    same(weighted, empty + (plain - empty) * factor)
    assert torch.equal(weighted[:, :2], plain[:, :2])


def test_long_prompts_are_encoded_chunk_by_chunk(clip_folder, tmp_path, randomised):
    model = text_model("l", "single", clip_model(16, randomised, 1), clip_folder, tmp_path)
    encoder = TextEncoder("single", (model,))
    long, pooled = encode(encoder, "a red circle a red circle a blue square")
    first, first_pooled = encode(encoder, "a red circle a red circle a")
    second, _ = encode(encoder, "blue square")
    same(long, torch.cat([first, second], dim=1))
    same(pooled, first_pooled)


def test_embedding(clip_folder, tmp_path, randomised, caplog):
    """An embedding that holds a word's own vectors encodes as the word."""
    clip = clip_model(16, randomised, 1)
    encoder = TextEncoder("single", (text_model("l", "single", clip, clip_folder, tmp_path),))
    table = clip.get_input_embeddings().weight.detach()
    red_circle = table[[4, 5]].clone()
    place = tmp_path / "models" / "embeddings" / "sub"
    place.mkdir(parents=True)
    save_file({"clip_l": red_circle, "clip_g": torch.zeros(2, 24)}, place / "both.safetensors")
    torch.save({"string_to_param": {"*": red_circle}, "name": "x"}, place / "old.pt")
    save_file({"emb_params": torch.zeros(1, 99)}, place / "wide.safetensors")
    folders.use(folders.Folders(models=[tmp_path / "models"]))

    expected, _ = encode(encoder, "a red circle on grass")
    same(encode(encoder, "a embedding:both on grass")[0], expected)
    same(encode(encoder, "a embedding:old.pt on grass")[0], expected)
    weighted, _ = encode(encoder, "a (red circle:1.2) on grass")
    same(encode(encoder, "a (embedding:old:1.2) on grass")[0], weighted)
    with caplog.at_level(logging.WARNING):
        same(encode(encoder, "a red embedding:absent circle on grass")[0], expected)
        same(encode(encoder, "a red embedding:wide circle on grass")[0], expected)
        same(encode(encoder, "a red circle on grass embedding:")[0], expected)
    assert "absent" in caplog.text and "99" in caplog.text


def test_open_clip_layout(randomised, tmp_path):
    """open_clip's names and fused projections (github.com/mlfoundations/open_clip) give the same model."""
    model = clip_model(16, randomised, 1, projected=True, hidden_act="gelu", num_attention_heads=1)
    state = {name.removeprefix("text_model."): tensor for name, tensor in model.state_dict().items()}
    original = {
        "positional_embedding": state["embeddings.position_embedding.weight"],
        "token_embedding.weight": state["embeddings.token_embedding.weight"],
        "ln_final.weight": state["final_layer_norm.weight"],
        "ln_final.bias": state["final_layer_norm.bias"],
        "text_projection": state["text_projection.weight"].T,
        "logit_scale": torch.tensor(1.0),
    }
    for i in range(3):
        layer, block = f"encoder.layers.{i}", f"transformer.resblocks.{i}"
        for end in ("weight", "bias"):
            parts = [state[f"{layer}.self_attn.{part}_proj.{end}"] for part in "qkv"]
            original[f"{block}.attn.in_proj_{end}"] = torch.cat(parts)
            original[f"{block}.attn.out_proj.{end}"] = state[f"{layer}.self_attn.out_proj.{end}"]
            original[f"{block}.ln_1.{end}"] = state[f"{layer}.layer_norm1.{end}"]
            original[f"{block}.ln_2.{end}"] = state[f"{layer}.layer_norm2.{end}"]
            original[f"{block}.mlp.c_fc.{end}"] = state[f"{layer}.mlp.fc1.{end}"]
            original[f"{block}.mlp.c_proj.{end}"] = state[f"{layer}.mlp.fc2.{end}"]
    weights = {name: files.from_tensor(tensor) for name, tensor in original.items()}
    tower = text_files.tower_of("g", weights, "test")
    tokens = [[0, 4, 5, 9, 9, 9]]
    with torch.no_grad():
        # In single files the end token is the vocabulary's last.
        model.config.eos_token_id = getattr(model, "text_model", model).eos_token_id = 9
        expected = model(torch.tensor(tokens), output_hidden_states=True)
    encoded = tower.encode(tokens, -2, normed=False)
    same(encoded.sequence, expected.hidden_states[-2])
    same(encoded.projected, expected.text_embeds)


def test_without_a_vocabulary_the_error_says_what_to_do(tmp_path, monkeypatch, randomised):
    monkeypatch.setattr(tokenizers.importlib.util, "find_spec", lambda name: None)
    folders.use(folders.Folders(models=[tmp_path / "models"]))
    state = clip_model(16, randomised, 1).state_dict()
    save_file(dict(state), tmp_path / "clip_l.safetensors")
    encoder = text_files.load([tmp_path / "clip_l.safetensors"], "stable_diffusion")
    with pytest.raises(folders.ModelNotFound) as error:
        encoder.tokenize("a cat")
    assert "open_clip_torch" in str(error.value)
    assert str(tmp_path / "models" / "tokenizers" / "clip") in str(error.value)


def test_the_vocabulary_of_open_clip_is_used(tmp_path, monkeypatch):
    """Bytes, then bytes at a word's end (CLIP's published id of the word "a" is 320), then merges."""
    package = tmp_path / "open_clip"
    package.mkdir()
    (package / "__init__.py").write_text("raise ImportError('it must not be imported')", encoding="utf-8")
    with gzip.open(package / tokenizers.CLIP_BPE, "wt", encoding="utf-8") as file:
        file.write("heading\nt h\nth e</w>\n")
    monkeypatch.syspath_prepend(tmp_path)
    folders.use(folders.Folders(models=[tmp_path / "models"]))
    vocabulary = tokenizers.clip()
    assert vocabulary.ids("A  the\n!") == [320, 513, 256]
    assert (vocabulary.start, vocabulary.end, vocabulary.pad) == (514, 515, 515)
    assert vocabulary.ids("<|endoftext|>a") == [515, 320]


def test_a_vocabulary_beside_the_file_is_found(tmp_path, word_tokenizer, randomised):
    word_tokenizer(WORDS, 9)
    save_file(dict(clip_model(16, randomised, 1).state_dict()), tmp_path / "clip_l.safetensors")
    encoder = text_files.load([tmp_path / "clip_l.safetensors"], "stable_diffusion")
    assert encoder.tokenize("red")["l"] == [[(0, 1.0), (4, 1.0), *[(1, 1.0)] * 7]]


def test_prompts_for_other_models_are_refused(clip_folder, tmp_path, randomised):
    model = text_model("l", "single", clip_model(16, randomised, 1), clip_folder, tmp_path)
    assert isinstance(model, TextModel)
    with pytest.raises(ValueError, match="'l'"):
        TextEncoder("single", (model,)).tokenize({"g": "a"})
