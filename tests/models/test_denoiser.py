from contextlib import contextmanager

import pytest
import torch
from slipstream.executor.models import denoiser, files
from slipstream.executor.models.families.flux import Flux, grid, pack, rope_axes, unpack
from slipstream.executor.models.families.sd3 import SD3
from slipstream.executor.models.families.unet import SD1, SDXL
from slipstream.executor.sampling.prediction import DiscreteFlow


def handle(module, family):
    weights = {name: files.from_tensor(tensor) for name, tensor in module.state_dict().items()}
    return denoiser.load(weights, family, "test")


def flux_module(randomised, guided=True):
    from diffusers import FluxTransformer2DModel

    return randomised(
        FluxTransformer2DModel(
            in_channels=16,
            num_layers=1,
            num_single_layers=1,
            attention_head_dim=16,
            num_attention_heads=2,
            joint_attention_dim=24,
            pooled_projection_dim=20,
            guidance_embeds=guided,
            axes_dims_rope=(4, 6, 6),
        )
    )


@pytest.fixture
def flux(randomised):
    return handle(flux_module(randomised), Flux())


def predict(model, x, options, sigma=0.7):
    generator = torch.Generator().manual_seed(2)
    cond = torch.randn(1, 5, 24, generator=generator)
    with model.session() as session, torch.no_grad():
        inputs = session.prepare((cond, options), noise=x, latent_image=x, denoise_mask=None)
        return session.predict(x, torch.full((len(x),), sigma), inputs)


def latent(*shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


POOLED = {"pooled_output": torch.ones(1, 20)}


def test_handles_are_immutable_and_share_the_module(flux):
    other = flux.with_sampling(DiscreteFlow(shift=2.0)).with_options(batch_conditions=False)
    assert other.module is flux.module
    assert (other.sampling.shift, other.options.batch_conditions) == (2.0, False)
    assert flux.options.batch_conditions and flux.sampling != other.sampling


def test_attachments_enter_in_order_and_always_leave(flux):
    events = []

    def attachment(name):
        @contextmanager
        def attach(session):
            events.append(f"+{name}")
            try:
                yield
            finally:
                events.append(f"-{name}")

        return attach

    model = flux.with_attachment(attachment("a")).with_attachment(attachment("b"))
    with pytest.raises(RuntimeError), model.session():
        events.append("run")
        raise RuntimeError
    assert events == ["+a", "+b", "run", "-b", "-a"]
    assert flux.attachments == ()


def test_odd_latents_are_padded_cyclically(flux):
    x = latent(1, 4, 5, 7)
    padded = torch.nn.functional.pad(x, (0, 1, 0, 1), mode="circular")
    assert torch.equal(predict(flux, x, POOLED), predict(flux, padded, POOLED)[..., :5, :7])


def test_guidance_has_a_default_and_can_be_disabled(flux):
    x = latent(1, 4, 4, 4)
    default = predict(flux, x, POOLED)
    assert torch.equal(default, predict(flux, x, {**POOLED, "guidance": 3.5}))
    assert not torch.equal(default, predict(flux, x, {**POOLED, "guidance": 1.0}))
    disabled = predict(flux, x, {**POOLED, "guidance": None})
    assert torch.equal(default, predict(flux, x, POOLED))  # nothing is left behind
    # Disabled means that the embedding adds nothing.
    last = flux.module.time_text_embed.guidance_embedder.linear_2
    weight, bias = last.weight.clone(), last.bias.clone()
    last.weight.zero_(), last.bias.zero_()
    assert torch.equal(disabled, predict(flux, x, POOLED))
    last.weight.copy_(weight), last.bias.copy_(bias)


def test_a_model_without_guidance_is_given_none(randomised):
    model = handle(flux_module(randomised, guided=False), Flux())
    x = latent(1, 4, 4, 4)
    assert torch.equal(predict(model, x, POOLED), predict(model, x, {**POOLED, "guidance": 9.0}))
    assert model.sampling == DiscreteFlow(shift=1.0, multiplier=1.0)


def test_a_missing_pooled_vector_counts_as_zeros(flux):
    x = latent(1, 4, 4, 4)
    zeros = predict(flux, x, {"pooled_output": torch.zeros(1, 20)})
    assert torch.equal(predict(flux, x, {}), zeros)
    assert torch.equal(predict(flux, x, {"pooled_output": None}), zeros)


def test_packing_is_inverted_and_positions_count_rows_and_columns():
    x = latent(2, 4, 6, 8)
    tokens = pack(x)
    assert tokens.shape == (2, 12, 16)
    assert torch.equal(tokens[0, 1], x[0, :, :2, 2:4].reshape(-1))  # the second patch of the first row
    assert torch.equal(unpack(tokens, 3, 4), x)
    assert grid(2, 3, torch.device("cpu")).tolist() == [
        [0, row, column] for row in range(2) for column in range(3)
    ]


def test_rotary_axes_of_flux():
    assert rope_axes(128) == (16, 56, 56)
    assert all(
        sum(rope_axes(head)) == head and not any(a % 2 for a in rope_axes(head)) for head in (16, 32, 64)
    )


def test_sd3_takes_odd_latents(randomised):
    from diffusers import SD3Transformer2DModel

    module = SD3Transformer2DModel(
        sample_size=8,
        num_layers=1,
        attention_head_dim=64,
        num_attention_heads=1,
        joint_attention_dim=24,
        caption_projection_dim=64,
        pooled_projection_dim=20,
        in_channels=4,
        out_channels=4,
        pos_embed_max_size=8,
    )
    model = handle(randomised(module), SD3())
    assert predict(model, latent(2, 4, 5, 7), POOLED).shape == (2, 4, 5, 7)


def test_sdxl_sizes_default_to_the_picture(randomised):
    class Config:
        projection_class_embeddings_input_dim = 20 + 6 * 256

    class Module:
        config = Config

    around = denoiser.Surroundings(latent(1, 4, 8, 6), latent(1, 4, 8, 6), None, 8)
    cond = torch.zeros(1, 5, 24)
    own = SDXL().prepare(Module, cond, POOLED, around)
    assert own["time_ids"].tolist() == [[64, 48, 0, 0, 64, 48]]
    stated = SDXL().prepare(Module, cond, {**POOLED, "width": 100, "crop_h": 3, "target_width": 7}, around)
    assert stated["time_ids"].tolist() == [[64, 100, 3, 0, 64, 7]]


def test_inpainting_models_are_refused_by_name(randomised):
    from diffusers import UNet2DConditionModel

    module = UNet2DConditionModel(
        in_channels=9,
        block_out_channels=(32,),
        down_block_types=("CrossAttnDownBlock2D",),
        up_block_types=("CrossAttnUpBlock2D",),
        layers_per_block=1,
        cross_attention_dim=24,
    )
    with pytest.raises(files.BadFile, match=r"test: .*9 input channels"):
        handle(module, SD1())
