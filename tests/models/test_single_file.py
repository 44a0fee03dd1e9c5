"""Files in the original authors' layouts, written from diffusers' modules by the published naming, loaded
back, and giving the same numbers."""

import re

import pytest
import torch
from safetensors.torch import save_file
from slipstream.executor.models import checkpoints, files
from slipstream.executor.models.families.registry import denoiser_in

TOLERANCE = 1e-5


def swap(tensor):
    return torch.cat(tensor.chunk(2)[::-1])


def renamed(state, rules):
    """Apply (pattern, replacement) pairs to every name; the first that matches counts."""
    result = {}
    for name, tensor in state.items():
        for pattern, replacement in rules:
            new, hits = re.subn(pattern, replacement, name)
            if hits:
                name = new
                break
        result[name] = tensor.contiguous()
    return result


def fused(state, pattern, parts, target):
    """Join the tensors `pattern.format(part)` into one, for weights and biases."""
    for end in ("weight", "bias"):
        names = [f"{pattern.format(part)}.{end}" for part in parts]
        if names[0] in state:
            state[f"{target}.{end}"] = torch.cat([state.pop(name) for name in names])


def bfl(module):
    """Flux as Black Forest Labs names it (github.com/black-forest-labs/flux, model.py)."""
    state = dict(module.state_dict())
    for name in ("norm_out.linear.weight", "norm_out.linear.bias"):
        state[name] = swap(state[name])
    for i in range(module.config.num_layers):
        block, attention = f"double_blocks.{i}", f"transformer_blocks.{i}.attn"
        fused(state, f"{attention}.to_{{}}", "qkv", f"{block}.img_attn.qkv")
        fused(state, f"{attention}.add_{{}}_proj", "qkv", f"{block}.txt_attn.qkv")
    for i in range(module.config.num_single_layers):
        block = f"single_transformer_blocks.{i}"
        parts = ["attn.to_q", "attn.to_k", "attn.to_v", "proj_mlp"]
        fused(state, f"{block}.{{}}", parts, f"single_blocks.{i}.linear1")
    double, single = r"^transformer_blocks\.(\d+)\.", r"^single_transformer_blocks\.(\d+)\."
    return renamed(
        state,
        [
            (double + r"norm1\.linear", r"double_blocks.\1.img_mod.lin"),
            (double + r"norm1_context\.linear", r"double_blocks.\1.txt_mod.lin"),
            (double + r"attn\.norm_q\.weight", r"double_blocks.\1.img_attn.norm.query_norm.scale"),
            (double + r"attn\.norm_k\.weight", r"double_blocks.\1.img_attn.norm.key_norm.scale"),
            (double + r"attn\.norm_added_q\.weight", r"double_blocks.\1.txt_attn.norm.query_norm.scale"),
            (double + r"attn\.norm_added_k\.weight", r"double_blocks.\1.txt_attn.norm.key_norm.scale"),
            (double + r"attn\.to_out\.0", r"double_blocks.\1.img_attn.proj"),
            (double + r"attn\.to_add_out", r"double_blocks.\1.txt_attn.proj"),
            (double + r"ff\.net\.0\.proj", r"double_blocks.\1.img_mlp.0"),
            (double + r"ff\.net\.2", r"double_blocks.\1.img_mlp.2"),
            (double + r"ff_context\.net\.0\.proj", r"double_blocks.\1.txt_mlp.0"),
            (double + r"ff_context\.net\.2", r"double_blocks.\1.txt_mlp.2"),
            (single + r"norm\.linear", r"single_blocks.\1.modulation.lin"),
            (single + r"proj_out", r"single_blocks.\1.linear2"),
            (single + r"attn\.norm_q\.weight", r"single_blocks.\1.norm.query_norm.scale"),
            (single + r"attn\.norm_k\.weight", r"single_blocks.\1.norm.key_norm.scale"),
            (r"^x_embedder", "img_in"),
            (r"^context_embedder", "txt_in"),
            (r"^time_text_embed\.timestep_embedder\.linear_1", "time_in.in_layer"),
            (r"^time_text_embed\.timestep_embedder\.linear_2", "time_in.out_layer"),
            (r"^time_text_embed\.text_embedder\.linear_1", "vector_in.in_layer"),
            (r"^time_text_embed\.text_embedder\.linear_2", "vector_in.out_layer"),
            (r"^time_text_embed\.guidance_embedder\.linear_1", "guidance_in.in_layer"),
            (r"^time_text_embed\.guidance_embedder\.linear_2", "guidance_in.out_layer"),
            (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
            (r"^proj_out", "final_layer.linear"),
        ],
    )


def mmdit(module):
    """Stable Diffusion 3 as Stability AI names it (github.com/Stability-AI/sd3.5, mmditx.py)."""
    state = dict(module.state_dict())
    last = module.config.num_layers - 1
    for name in ("norm_out.linear", f"transformer_blocks.{last}.norm1_context.linear"):
        for end in ("weight", "bias"):
            state[f"{name}.{end}"] = swap(state[f"{name}.{end}"])
    for i in range(last + 1):
        block, target = f"transformer_blocks.{i}", f"joint_blocks.{i}"
        fused(state, f"{block}.attn.to_{{}}", "qkv", f"{target}.x_block.attn.qkv")
        fused(state, f"{block}.attn2.to_{{}}", "qkv", f"{target}.x_block.attn2.qkv")
        fused(state, f"{block}.attn.add_{{}}_proj", "qkv", f"{target}.context_block.attn.qkv")
    block = r"^transformer_blocks\.(\d+)\."
    return renamed(
        state,
        [
            (block + r"norm1\.linear", r"joint_blocks.\1.x_block.adaLN_modulation.1"),
            (block + r"norm1_context\.linear", r"joint_blocks.\1.context_block.adaLN_modulation.1"),
            (block + r"attn\.norm_added_(q|k)", r"joint_blocks.\1.context_block.attn.ln_\2"),
            (block + r"(attn2?)\.norm_(q|k)", r"joint_blocks.\1.x_block.\2.ln_\3"),
            (block + r"(attn2?)\.to_out\.0", r"joint_blocks.\1.x_block.\2.proj"),
            (block + r"attn\.to_add_out", r"joint_blocks.\1.context_block.attn.proj"),
            (block + r"ff\.net\.0\.proj", r"joint_blocks.\1.x_block.mlp.fc1"),
            (block + r"ff\.net\.2", r"joint_blocks.\1.x_block.mlp.fc2"),
            (block + r"ff_context\.net\.0\.proj", r"joint_blocks.\1.context_block.mlp.fc1"),
            (block + r"ff_context\.net\.2", r"joint_blocks.\1.context_block.mlp.fc2"),
            (r"^pos_embed\.pos_embed", "pos_embed"),
            (r"^pos_embed\.proj", "x_embedder.proj"),
            (r"^time_text_embed\.timestep_embedder\.linear_1", "t_embedder.mlp.0"),
            (r"^time_text_embed\.timestep_embedder\.linear_2", "t_embedder.mlp.2"),
            (r"^time_text_embed\.text_embedder\.linear_1", "y_embedder.mlp.0"),
            (r"^time_text_embed\.text_embedder\.linear_2", "y_embedder.mlp.2"),
            (r"^norm_out\.linear", "final_layer.adaLN_modulation.1"),
            (r"^proj_out", "final_layer.linear"),
        ],
    )


RESNET = {
    "norm1": "in_layers.0",
    "conv1": "in_layers.2",
    "time_emb_proj": "emb_layers.1",
    "norm2": "out_layers.0",
    "conv2": "out_layers.3",
    "conv_shortcut": "skip_connection",
}


def ldm(module):
    """A UNet as CompVis names it (stable-diffusion, openaimodel.py): blocks in one sequence."""
    prefixes = {"mid_block.resnets.0": "middle_block.0", "mid_block.attentions.0": "middle_block.1"}
    prefixes["mid_block.resnets.1"] = "middle_block.2"
    number = 1
    for level, block in enumerate(module.down_blocks):
        for layer in range(len(block.resnets)):
            prefixes[f"down_blocks.{level}.resnets.{layer}"] = f"input_blocks.{number}.0"
            prefixes[f"down_blocks.{level}.attentions.{layer}"] = f"input_blocks.{number}.1"
            number += 1
        prefixes[f"down_blocks.{level}.downsamplers.0.conv"] = f"input_blocks.{number}.0.op"
        number += 1
    number = 0
    for level, block in enumerate(module.up_blocks):
        attention = hasattr(block, "attentions")
        for layer in range(len(block.resnets)):
            prefixes[f"up_blocks.{level}.resnets.{layer}"] = f"output_blocks.{number}.0"
            prefixes[f"up_blocks.{level}.attentions.{layer}"] = f"output_blocks.{number}.1"
            number += 1
        prefixes[f"up_blocks.{level}.upsamplers.0"] = f"output_blocks.{number - 1}.{1 + attention}"
    resnets = [
        (rf"^{re.escape(old)}\.{inner}\.", f"{new}.{RESNET[inner]}.")
        for old, new in prefixes.items()
        if ".resnets." in old
        for inner in RESNET
    ]
    others = [(rf"^{re.escape(old)}\.", f"{new}.") for old, new in prefixes.items() if ".resnets." not in old]
    basic = [
        (r"^conv_in\.", "input_blocks.0.0."),
        (r"^time_embedding\.linear_1\.", "time_embed.0."),
        (r"^time_embedding\.linear_2\.", "time_embed.2."),
        (r"^add_embedding\.linear_1\.", "label_emb.0.0."),
        (r"^add_embedding\.linear_2\.", "label_emb.0.2."),
        (r"^conv_norm_out\.", "out.0."),
        (r"^conv_out\.", "out.2."),
    ]
    return renamed(module.state_dict(), [*resnets, *others, *basic])


def ldm_vae(module):
    """An autoencoder as CompVis names it: the decoder counts its levels from the finest."""
    last = len(module.config.block_out_channels) - 1
    state = {}
    for name, tensor in module.state_dict().items():
        name = re.sub(r"^encoder\.down_blocks\.(\d+)\.resnets\.", r"encoder.down.\1.block.", name)
        name = re.sub(r"^encoder\.down_blocks\.(\d+)\.downsamplers\.0", r"encoder.down.\1.downsample", name)
        name = re.sub(
            r"^decoder\.up_blocks\.(\d+)\.", lambda m: f"decoder.up_blocks.{last - int(m[1])}.", name
        )
        name = re.sub(r"^decoder\.up_blocks\.(\d+)\.resnets\.", r"decoder.up.\1.block.", name)
        name = re.sub(r"^decoder\.up_blocks\.(\d+)\.upsamplers\.0", r"decoder.up.\1.upsample", name)
        name = name.replace("conv_shortcut", "nin_shortcut").replace("conv_norm_out", "norm_out")
        name = name.replace("mid_block.resnets.0", "mid.block_1").replace(
            "mid_block.resnets.1", "mid.block_2"
        )
        if "mid_block.attentions.0" in name:
            for old, new in {"group_norm": "norm", "to_q": "q", "to_k": "k", "to_v": "v"}.items():
                name = name.replace(f"mid_block.attentions.0.{old}", f"mid.attn_1.{new}")
            name = name.replace("mid_block.attentions.0.to_out.0", "mid.attn_1.proj_out")
            if tensor.ndim == 2:
                tensor = tensor[..., None, None]
        state[name] = tensor.contiguous()
    return state


def flux(guided=True):
    from diffusers import FluxTransformer2DModel

    return FluxTransformer2DModel(
        in_channels=16,
        num_layers=2,
        num_single_layers=1,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=20,
        guidance_embeds=guided,
        axes_dims_rope=(4, 6, 6),
    )


def sd35():
    from diffusers import SD3Transformer2DModel

    return SD3Transformer2DModel(
        sample_size=8,
        num_layers=3,
        attention_head_dim=64,
        num_attention_heads=2,
        joint_attention_dim=24,
        caption_projection_dim=128,
        pooled_projection_dim=20,
        pos_embed_max_size=8,
        dual_attention_layers=(0, 1),
        qk_norm="rms_norm",
    )


def unet(**config):
    from diffusers import UNet2DConditionModel

    return UNet2DConditionModel(
        block_out_channels=(64, 128, 64),
        down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"),
        layers_per_block=2,
        cross_attention_dim=24,
        **config,
    )


SDXL = {
    "use_linear_projection": True,
    "attention_head_dim": (1, 2, 1),
    "transformer_layers_per_block": (1, 2, 2),
    "addition_embed_type": "text_time",
    "addition_time_embed_dim": 256,
    "projection_class_embeddings_input_dim": 20 + 6 * 256,
}
CASES = {
    "flux": (lambda: flux(), bfl, "flux"),
    "flux without guidance": (lambda: flux(guided=False), bfl, "flux"),
    "sd3.5": (sd35, mmdit, "sd3"),
    "sd1": (lambda: unet(attention_head_dim=8), ldm, "sd1"),
    "sd2": (lambda: unet(use_linear_projection=True, attention_head_dim=(1, 2, 1)), ldm, "sd2"),
    "sdxl": (lambda: unet(**SDXL), ldm, "sdxl"),
}


def call(family, module):
    """One evaluation through the family's own adapter, on an odd latent."""
    generator = torch.Generator().manual_seed(3)
    channels = module.config.in_channels // (4 if family.name == "flux" else 1)
    x = torch.randn(2, channels, 8, 8, generator=generator)
    inputs = {
        "context": torch.randn(2, 5, 24, generator=generator),
        "pooled": torch.randn(2, 20, generator=generator),
    }
    inputs["text_embeds"] = inputs["pooled"]
    inputs["time_ids"] = torch.tensor([[64.0, 64, 0, 0, 64, 64]] * 2)
    if family.name == "sdxl":
        del inputs["pooled"]
    elif family.name in ("sd1", "sd2"):
        inputs = {"context": inputs["context"]}
    if family.name == "flux" and module.config.guidance_embeds:
        inputs["guidance"] = torch.tensor([2.0, 3.0])
    with torch.no_grad():
        return family.call(module, x, torch.tensor([0.3, 0.9]), inputs)


@pytest.mark.parametrize(
    ("layout", "prefix"), [("original", ""), ("original", "model.diffusion_model."), ("diffusers", "")]
)
@pytest.mark.parametrize("case", CASES)
def test_denoiser(case, layout, prefix, tmp_path, randomised):
    make, original, family_name = CASES[case]
    module = randomised(make())
    state = original(module) if layout == "original" else module.state_dict()
    file = tmp_path / "model.safetensors"
    save_file({prefix + name: tensor.contiguous() for name, tensor in state.items()}, file)

    found = denoiser_in(files.open_weights(file))
    assert found is not None and (found[0].name, found[1]) == (family_name, prefix)
    loaded = checkpoints.load_denoiser(file, "default")
    assert (call(loaded.family, loaded.module) - call(loaded.family, module)).abs().max() < TOLERANCE


def test_half_precision_files_run_in_single_precision_on_a_cpu(tmp_path, randomised):
    module = randomised(flux())
    file = tmp_path / "model.safetensors"
    save_file({name: tensor.half() for name, tensor in bfl(module).items()}, file)
    loaded = checkpoints.load_denoiser(file, "default")
    assert {parameter.dtype for parameter in loaded.module.parameters()} == {torch.float32}
    weight = "transformer_blocks.0.attn.to_k.weight"
    assert torch.equal(loaded.module.state_dict()[weight], module.state_dict()[weight].half().float())


@pytest.mark.parametrize("name", ["fp8_e4m3fn", "fp8_e5m2"])
def test_fp8_holds_linear_layers_in_eight_bits(name, tmp_path, randomised):
    module = randomised(flux())
    file = tmp_path / "model.safetensors"
    save_file(bfl(module), file)
    loaded = checkpoints.load_denoiser(file, name)
    stored = loaded.module.transformer_blocks[0].attn.to_q.weight.dtype
    assert stored == {"fp8_e4m3fn": torch.float8_e4m3fn, "fp8_e5m2": torch.float8_e5m2}[name]
    with loaded.session() as session:
        given = call(loaded.family, session.module)
    exact = call(loaded.family, module)
    assert (given - exact).norm() < 0.2 * exact.norm()


@pytest.mark.parametrize("layout", ["original", "diffusers", "old diffusers"])
@pytest.mark.parametrize("quantised", [True, False], ids=["sd", "flux"])
def test_vae(layout, quantised, tmp_path, randomised):
    from diffusers import AutoencoderKL

    module = randomised(
        AutoencoderKL(
            latent_channels=4 if quantised else 16,
            block_out_channels=(32, 64),
            down_block_types=["DownEncoderBlock2D"] * 2,
            up_block_types=["UpDecoderBlock2D"] * 2,
            layers_per_block=2,
            use_quant_conv=quantised,
            use_post_quant_conv=quantised,
        )
    )
    state = ldm_vae(module) if layout == "original" else module.state_dict()
    if layout == "old diffusers":
        names = {"to_q": "query", "to_k": "key", "to_v": "value", r"to_out\.0": "proj_attn"}
        rules = [(rf"attentions\.0\.{new}", f"attentions.0.{old}") for new, old in names.items()]
        state = renamed(state, rules)
    file = tmp_path / "vae.safetensors"
    save_file({name: tensor.contiguous() for name, tensor in state.items()}, file)

    vae = checkpoints.load_vae(file)
    assert (vae.latent.channels, vae.ratio) == (module.config.latent_channels, 2)
    image = torch.rand(2, 16, 24, 3, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        latent = module.encode(image.movedim(-1, 1) * 2 - 1).latent_dist.mode()
        picture = (module.decode(latent).sample / 2 + 0.5).clamp(0, 1).movedim(1, -1)
    assert (vae.encode(image) - latent).abs().max() < 10 * TOLERANCE
    assert (vae.decode(latent) - picture).abs().max() < 10 * TOLERANCE


def test_tiny_vae(tmp_path, randomised):
    """TAESD in ComfyUI's form, both halves in one file; they work on scaled latents."""
    from diffusers import AutoencoderTiny

    module = randomised(AutoencoderTiny(latent_channels=4))
    state = {}
    for name, tensor in module.state_dict().items():
        half, _, layer, rest = name.split(".", 3)
        state[f"taesd_{half}.{int(layer) + (half == 'decoder')}.{rest}"] = tensor
    file = tmp_path / "vae.safetensors"
    save_file(state, file)
    vae = checkpoints.vae_of(files.open_weights(file), file, 0.5, 0.25)
    latent = torch.randn(1, 4, 4, 6, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        picture = (module.decode((latent - 0.25) * 0.5).sample / 2 + 0.5).clamp(0, 1).movedim(1, -1)
        encoded = module.encode(picture.movedim(-1, 1) * 2 - 1).latents / 0.5 + 0.25
    assert (vae.decode(latent) - picture).abs().max() < TOLERANCE
    assert (vae.encode(picture) - encoded).abs().max() < TOLERANCE
