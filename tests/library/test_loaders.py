"""Loader nodes on small models of every layout, and on files that they do not take."""

import pytest
import torch
from safetensors.torch import load_file, save_file
from slipstream.executor.library import loaders, text
from slipstream.executor.library import vae as vae_nodes
from slipstream.executor.models import folders
from slipstream.executor.models.files import BadFile
from tokenizers import Tokenizer, models, pre_tokenizers, processors


@pytest.fixture
def root(tmp_path):
    """An empty model root, in use for the test."""
    before = folders.current()
    folders.use(folders.Folders(models=[tmp_path]))
    for kind in ("checkpoints", "diffusion_models", "text_encoders", "vae", "vae_approx", "diffusers"):
        (tmp_path / kind).mkdir()
    yield tmp_path
    folders.use(before)


def save(module_or_state, path, prefix=""):
    state = module_or_state if isinstance(module_or_state, dict) else module_or_state.state_dict()
    save_file({prefix + name: tensor.contiguous() for name, tensor in state.items()}, path)


def transformer():
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=16,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 6, 6),
    )


def autoencoder():
    from diffusers import AutoencoderKL

    return AutoencoderKL(latent_channels=4, block_out_channels=(32,), scaling_factor=0.5, shift_factor=0.25)


def clip(layers=2):
    from transformers import CLIPTextConfig, CLIPTextModel

    return CLIPTextModel(
        CLIPTextConfig(
            vocab_size=8,
            hidden_size=16,
            intermediate_size=16,
            num_hidden_layers=layers,
            num_attention_heads=1,
            max_position_embeddings=8,
            bos_token_id=0,
            eos_token_id=1,
        )
    )


def t5():
    from transformers import T5Config, T5EncoderModel

    sizes = {"d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    return T5EncoderModel(T5Config(vocab_size=8, feed_forward_proj="gated-gelu", **sizes))


def tokenizer(folder):
    vocabulary = {token: number for number, token in enumerate(["<s>", "</s>", "<unk>", "red", "circle"])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    folder.mkdir(parents=True)
    made.save(str(folder / "tokenizer.json"))


@pytest.fixture
def pipeline(root):
    """A Flux pipeline with one text encoder in diffusers' folder layout, as `diffusers/small`."""
    place = root / "diffusers" / "small"
    transformer().save_pretrained(place / "transformer")
    autoencoder().save_pretrained(place / "vae")
    clip().save_pretrained(place / "text_encoder")
    tokenizer(place / "tokenizer")
    (place / "scheduler").mkdir()
    (place / "scheduler" / "scheduler_config.json").write_text('{"shift": 1.5}', encoding="utf-8")
    (place / "model_index.json").write_text('{"_class_name": "FluxPipeline"}', encoding="utf-8")
    return place


def test_a_pipeline_folder_in_both_loaders(pipeline):
    for node, kind in (
        (loaders.CheckpointLoaderSimple, "checkpoints"),
        (loaders.DiffusersLoader, "diffusers"),
    ):
        options = next(iter(node.INPUT_TYPES()["required"].values()))[0]
        assert "small" in options and options == folders.names(kind)
        model, encoder, vae = node().load_checkpoint("small")
        assert (model.latent.channels, model.latent.scale, model.latent.shift) == (4, 0.5, 0.25)
        assert (model.latent.spatial_ratio, vae.ratio, model.sampling.shift) == (1, 1, 1.5)
        (conditioning,) = text.CLIPTextEncode().encode(encoder, "red circle")
        [[cond, options]] = conditioning
        assert cond.shape == (1, 8, 16) and options["pooled_output"].shape == (1, 16)


def test_a_folder_without_a_denoiser(root):
    (root / "checkpoints" / "broken").mkdir()
    (root / "checkpoints" / "broken" / "model_index.json").write_text("{}", encoding="utf-8")
    with pytest.raises(BadFile, match="no transformer or unet"):
        loaders.CheckpointLoaderSimple().load_checkpoint("broken")


def test_a_checkpoint_with_everything(root):
    """The parts under ComfyUI's prefixes for Flux."""
    file = root / "checkpoints" / "all.safetensors"
    state = {}
    for prefix, module in {
        "model.diffusion_model.": transformer(),
        "vae.": autoencoder(),
        "text_encoders.clip_l.transformer.text_model.": clip(),
        "text_encoders.t5xxl.transformer.": t5(),
    }.items():
        own = {name.removeprefix("text_model."): tensor for name, tensor in module.state_dict().items()}
        state |= {prefix + name: tensor.clone() for name, tensor in own.items()}
    save(state, file)
    model, encoder, vae = loaders.CheckpointLoaderSimple().load_checkpoint("all.safetensors")
    assert model.family.name == "flux" and vae.latent.channels == 4
    assert [part.name for part in encoder.models] == ["l", "t5xxl"]


def test_a_checkpoint_without_text_and_picture_parts(root):
    save(transformer(), root / "checkpoints" / "bare.safetensors")
    model, encoder, vae = loaders.CheckpointLoaderSimple().load_checkpoint("bare.safetensors")
    assert model is not None and encoder is None and vae is None
    with pytest.raises(ValueError, match=r"clip: .*CLIPLoader"):
        text.CLIPTextEncode().encode(encoder, "a")
    with pytest.raises(ValueError, match=r"vae: .*VAELoader"):
        vae_nodes.VAEDecode().decode(vae, {"samples": torch.zeros(1, 4, 8, 8)})


WRONG = {
    "a VAE given to UNETLoader": (
        lambda root: save(autoencoder(), root / "diffusion_models" / "x.safetensors"),
        lambda: loaders.UNETLoader().load_unet("x.safetensors", "default"),
        ("looks like a VAE", "not a diffusion model", "VAELoader", "folder vae"),
    ),
    "a denoiser given to VAELoader": (
        lambda root: save(transformer(), root / "vae" / "x.safetensors"),
        lambda: loaders.VAELoader().load_vae("x.safetensors"),
        ("looks like a diffusion model", "not a VAE", "UNETLoader", "folder diffusion_models"),
    ),
    "a text encoder given to CheckpointLoaderSimple": (
        lambda root: save(clip(), root / "checkpoints" / "x.safetensors"),
        lambda: loaders.CheckpointLoaderSimple().load_checkpoint("x.safetensors"),
        ("looks like a text encoder", "not a checkpoint", "CLIPLoader", "folder text_encoders"),
    ),
    "a LoRA given to CLIPLoader": (
        lambda root: save({"a.lora_up.weight": torch.zeros(2)}, root / "text_encoders" / "x.safetensors"),
        lambda: loaders.CLIPLoader().load_clip("x.safetensors", "sd3"),
        ("looks like a LoRA", "not a text encoder", "LoraLoader", "folder loras"),
    ),
    "something unknown": (
        lambda root: save(
            {f"strange.{i}": torch.zeros(2) for i in range(5)}, root / "diffusion_models" / "x.safetensors"
        ),
        lambda: loaders.UNETLoader().load_unet("x.safetensors", "default"),
        ("not a diffusion model of a supported kind", "strange.0"),
    ),
    "a type that is not supported": (
        lambda root: save(clip(), root / "text_encoders" / "x.safetensors"),
        lambda: loaders.CLIPLoader().load_clip("x.safetensors", "wan"),
        ("type 'wan' are not supported", "sd3"),
    ),
    "CLIP where the type takes another": (
        lambda root: save(clip(layers=24), root / "text_encoders" / "x.safetensors"),
        lambda: loaders.CLIPLoader().load_clip("x.safetensors", "sd3"),
        ("this is CLIP-H", "takes CLIP-L or CLIP-G or T5"),
    ),
    "the same text encoder twice": (
        lambda root: save(clip(), root / "text_encoders" / "x.safetensors"),
        lambda: loaders.DualCLIPLoader().load_clip("x.safetensors", "x.safetensors", "sdxl"),
        ("CLIP-L was given twice",),
    ),
    "a truncated file": (
        lambda root: (root / "diffusion_models" / "x.safetensors").write_bytes(b"\x40" + bytes(20)),
        lambda: loaders.UNETLoader().load_unet("x.safetensors", "default"),
        ("not a readable safetensors file", "incomplete"),
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_files(case, root):
    write, load, words = WRONG[case]
    write(root)
    with pytest.raises(BadFile) as error:
        load()
    message = str(error.value)
    assert all(word in message for word in words), message
    assert "x.safetensors" in message or "type" in message


@pytest.mark.parametrize("node", [loaders.UNETLoader().load_unet, loaders.CLIPLoader().load_clip])
def test_unknown_names(node, root):
    with pytest.raises(folders.ModelNotFound, match=r"nothing\.safetensors"):
        node("nothing.safetensors", "default")


def test_a_tensor_missing_or_of_another_shape_is_named(root):
    state = dict(transformer().state_dict())
    missing = {name: tensor for name, tensor in state.items() if name != "x_embedder.bias"}
    save(missing, root / "diffusion_models" / "missing.safetensors")
    with pytest.raises(BadFile, match=r"1 tensors .*'x_embedder\.bias'"):
        loaders.UNETLoader().load_unet("missing.safetensors", "default")
    save({**state, "x_embedder.bias": torch.zeros(3)}, root / "diffusion_models" / "shape.safetensors")
    with pytest.raises(BadFile, match=r"'x_embedder\.bias' has the shape \[3\], this model has \[32\]"):
        loaders.UNETLoader().load_unet("shape.safetensors", "default")


def test_text_encoder_loaders(root):
    save(clip(), root / "text_encoders" / "clip_l.safetensors")
    save(clip(layers=32), root / "text_encoders" / "clip_g.safetensors")
    state = {name: tensor for name, tensor in t5().state_dict().items() if "embed_tokens" not in name}
    save(state, root / "text_encoders" / "t5.safetensors")
    names = ["clip_l.safetensors", "clip_g.safetensors", "t5.safetensors"]
    (one,) = loaders.CLIPLoader().load_clip(names[0], "stable_diffusion")
    (flux,) = loaders.DualCLIPLoader().load_clip(names[2], names[0], "flux", "cpu")
    (sdxl,) = loaders.DualCLIPLoader().load_clip(names[1], names[0], "sdxl")
    (sd3,) = loaders.TripleCLIPLoader().load_clip(*names)
    found = [
        (encoder.text, sorted(model.name for model in encoder.models)) for encoder in (one, flux, sdxl, sd3)
    ]
    assert found == [
        ("single", ["l"]),
        ("flux", ["l", "t5xxl"]),
        ("sdxl", ["g", "l"]),
        ("sd3", ["g", "l", "t5xxl"]),
    ]


def test_tiny_vaes_in_two_files(root):
    from diffusers import AutoencoderTiny

    def options():
        return loaders.VAELoader.INPUT_TYPES()["required"]["vae_name"][0]

    module = AutoencoderTiny(latent_channels=16)
    halves = {"encoder": {}, "decoder": {}}
    for name, tensor in module.state_dict().items():
        half, _, layer, rest = name.split(".", 3)
        halves[half][f"{int(layer) + (half == 'decoder')}.{rest}"] = tensor
    save(halves["encoder"], root / "vae_approx" / "taef1_encoder.safetensors")
    assert options() == ["pixel_space"]
    save(halves["decoder"], root / "vae_approx" / "taef1_decoder.safetensors")
    assert options() == ["taef1", "pixel_space"]
    (vae,) = loaders.VAELoader().load_vae("taef1")
    assert (vae.codec.scale, vae.codec.shift, vae.latent.channels) == (0.3611, 0.1159, 16)
    (pixels,) = loaders.VAELoader().load_vae("pixel_space")
    assert pixels.ratio == 1


def test_the_saved_pipeline_is_what_is_loaded(pipeline):
    model, _, _ = loaders.DiffusersLoader().load_checkpoint("small")
    stored = load_file(pipeline / "transformer" / "diffusion_pytorch_model.safetensors")
    assert all(torch.equal(tensor, stored[name]) for name, tensor in model.module.state_dict().items())
