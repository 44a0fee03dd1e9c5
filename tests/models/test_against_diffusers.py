"""The same noise, sigmas and prompt encodings give the same latents and pictures as diffusers' pipelines."""

import pytest
import torch
from slipstream.executor.models import checkpoints

pytestmark = pytest.mark.slow  # importing the pipelines takes longest
TOLERANCE = 1e-4
STEPS = 4


def vae(channels, **config):
    from diffusers import AutoencoderKL

    return AutoencoderKL(
        latent_channels=channels,
        block_out_channels=(32, 32, 32, 32),
        down_block_types=["DownEncoderBlock2D"] * 4,
        up_block_types=["UpDecoderBlock2D"] * 4,
        layers_per_block=1,
        **config,
    )


def conditioning(encoded, pooled=None, **options):
    return [[encoded, {"pooled_output": pooled, **options}]]


def encodings(*shapes):
    generator = torch.Generator().manual_seed(7)
    return [torch.randn(shape, generator=generator) for shape in shapes]


def compare(pipe, tmp_path, run):
    """Save the pipeline, load it here, and compare latents (in the denoiser's space) and pictures.

    `run(model) -> (our LATENT, the pipeline's latents in the denoiser's space [B, C, H, W])`.
    """
    pipe.save_pretrained(tmp_path)
    model, _, decoder = checkpoints.load(tmp_path)
    ours, theirs = run(model)
    assert theirs.abs().max() > 0.5
    assert (model.latent.encode(ours) - theirs).abs().max() < TOLERANCE
    scaled = theirs / pipe.vae.config.scaling_factor + (pipe.vae.config.shift_factor or 0.0)
    with torch.no_grad():
        picture = (pipe.vae.decode(scaled, return_dict=False)[0] / 2 + 0.5).clamp(0, 1)
    assert (decoder.decode(ours) - picture.movedim(1, -1)).abs().max() < TOLERANCE


@pytest.mark.parametrize("guided", [True, False], ids=["dev", "schnell"])
def test_flux(guided, tmp_path, euler, randomised):
    from diffusers import FlowMatchEulerDiscreteScheduler, FluxPipeline, FluxTransformer2DModel

    transformer = FluxTransformer2DModel(
        in_channels=16,
        num_layers=1,
        num_single_layers=2,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=20,
        guidance_embeds=guided,
        axes_dims_rope=(4, 6, 6),
    )
    pipe = FluxPipeline(
        scheduler=FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=guided),
        vae=randomised(vae(4, scaling_factor=0.4, shift_factor=0.1)),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        transformer=randomised(transformer),
    )
    pipe.set_progress_bar_config(disable=True)
    encoded, pooled, noise = encodings((1, 7, 24), (1, 20), (1, 4, 12, 8))

    def run(model):
        packed = pipe._pack_latents(noise, 1, 4, 12, 8)
        result = pipe(
            prompt_embeds=encoded,
            pooled_prompt_embeds=pooled,
            latents=packed,
            height=96,
            width=64,
            num_inference_steps=STEPS,
            guidance_scale=2.5,
            output_type="latent",
        ).images
        theirs = pipe._unpack_latents(result, 96, 64, 8)
        positive = conditioning(encoded, pooled, guidance=2.5)
        return euler(model, noise, pipe.scheduler.sigmas, positive, positive, 1.0), theirs

    compare(pipe, tmp_path, run)


def test_stable_diffusion_3(tmp_path, euler, randomised):
    from diffusers import FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel, StableDiffusion3Pipeline

    transformer = SD3Transformer2DModel(
        sample_size=16,
        num_layers=3,
        attention_head_dim=16,
        num_attention_heads=2,
        joint_attention_dim=24,
        caption_projection_dim=32,
        pooled_projection_dim=20,
        pos_embed_max_size=16,
        dual_attention_layers=(0,),
        qk_norm="rms_norm",
        in_channels=4,
        out_channels=4,
    )
    pipe = StableDiffusion3Pipeline(
        transformer=randomised(transformer),
        scheduler=FlowMatchEulerDiscreteScheduler(shift=3.0),
        vae=randomised(vae(4, scaling_factor=0.4, shift_factor=0.1)),
        text_encoder=None,
        tokenizer=None,
        text_encoder_2=None,
        tokenizer_2=None,
        text_encoder_3=None,
        tokenizer_3=None,
    )
    pipe.set_progress_bar_config(disable=True)
    shapes = ((1, 7, 24), (1, 20), (1, 7, 24), (1, 20), (1, 4, 12, 8))
    encoded, pooled, negative, negative_pooled, noise = encodings(*shapes)

    def run(model):
        theirs = pipe(
            prompt_embeds=encoded,
            pooled_prompt_embeds=pooled,
            negative_prompt_embeds=negative,
            negative_pooled_prompt_embeds=negative_pooled,
            latents=noise,
            height=96,
            width=64,
            num_inference_steps=STEPS,
            guidance_scale=3.0,
            output_type="latent",
        ).images
        prompts = conditioning(encoded, pooled), conditioning(negative, negative_pooled)
        return euler(model, noise, pipe.scheduler.sigmas, *prompts, 3.0), theirs

    compare(pipe, tmp_path, run)


UNET = {
    "block_out_channels": (32, 64),
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"),
    "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"),
    "layers_per_block": 1,
    "cross_attention_dim": 24,
    "attention_head_dim": 4,
}
BETAS = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}


def gentle(unet):
    """A prediction of the size of noise, so that latents stay of the size that the tolerance is for."""
    unet.conv_out.weight.data *= 0.2
    return unet


@pytest.mark.parametrize("prediction", ["epsilon", "v_prediction"])
def test_stable_diffusion(prediction, tmp_path, euler, randomised):
    from diffusers import EulerDiscreteScheduler, StableDiffusionPipeline, UNet2DConditionModel

    pipe = StableDiffusionPipeline(
        vae=randomised(vae(4)),
        text_encoder=None,
        tokenizer=None,
        unet=gentle(randomised(UNet2DConditionModel(**UNET))),
        scheduler=EulerDiscreteScheduler(**BETAS, prediction_type=prediction, timestep_spacing="leading"),
        safety_checker=None,
        feature_extractor=None,
        requires_safety_checker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    encoded, negative, noise = encodings((1, 7, 24), (1, 7, 24), (1, 4, 12, 8))

    def run(model):
        theirs = pipe(
            prompt_embeds=encoded,
            negative_prompt_embeds=negative,
            latents=noise,
            height=96,
            width=64,
            num_inference_steps=STEPS,
            guidance_scale=3.0,
            output_type="latent",
        ).images
        sigmas = pipe.scheduler.sigmas
        # The pipeline starts from noise times sqrt(sigma^2 + 1), as we do only at the highest sigma.
        start = noise * (sigmas[0] ** 2 + 1).sqrt() / sigmas[0]
        return euler(model, start, sigmas, conditioning(encoded), conditioning(negative), 3.0), theirs

    compare(pipe, tmp_path, run)


def test_stable_diffusion_xl(tmp_path, euler, randomised):
    from diffusers import EulerDiscreteScheduler, StableDiffusionXLPipeline, UNet2DConditionModel

    unet = UNet2DConditionModel(
        **UNET,
        use_linear_projection=True,
        transformer_layers_per_block=(2, 1),
        addition_embed_type="text_time",
        addition_time_embed_dim=256,
        projection_class_embeddings_input_dim=20 + 6 * 256,
    )
    pipe = StableDiffusionXLPipeline(
        vae=randomised(vae(4)),
        text_encoder=None,
        text_encoder_2=None,
        tokenizer=None,
        tokenizer_2=None,
        unet=gentle(randomised(unet)),
        scheduler=EulerDiscreteScheduler(**BETAS, timestep_spacing="leading"),
        add_watermarker=False,
    )
    pipe.set_progress_bar_config(disable=True)
    shapes = ((1, 7, 24), (1, 20), (1, 7, 24), (1, 20), (1, 4, 12, 8))
    encoded, pooled, negative, negative_pooled, noise = encodings(*shapes)

    def run(model):
        theirs = pipe(
            prompt_embeds=encoded,
            pooled_prompt_embeds=pooled,
            negative_prompt_embeds=negative,
            negative_pooled_prompt_embeds=negative_pooled,
            latents=noise,
            height=96,
            width=64,
            original_size=(200, 100),
            crops_coords_top_left=(8, 16),
            target_size=(96, 64),
            num_inference_steps=STEPS,
            guidance_scale=3.0,
            output_type="latent",
        ).images
        sizes = {
            "height": 200,
            "width": 100,
            "crop_h": 8,
            "crop_w": 16,
            "target_height": 96,
            "target_width": 64,
        }
        prompts = conditioning(encoded, pooled, **sizes), conditioning(negative, negative_pooled, **sizes)
        sigmas = pipe.scheduler.sigmas
        start = noise * (sigmas[0] ** 2 + 1).sqrt() / sigmas[0]
        return euler(model, start, sigmas, *prompts, 3.0), theirs

    compare(pipe, tmp_path, run)
