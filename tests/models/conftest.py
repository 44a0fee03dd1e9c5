"""Small random models in diffusers' layout, and a run of our sampler on given sigmas."""

import pytest
import torch
from slipstream.executor.models import folders, tokenizers
from slipstream.executor.sampling.guidance import CFGGuider
from slipstream.executor.sampling.run import sample
from slipstream.executor.sampling.samplers import Sampler
from tokenizers import Tokenizer, models, pre_tokenizers, processors


@pytest.fixture(autouse=True)
def usual_folders():
    """Whatever a test configures ends with it."""
    before = folders.current()
    yield
    folders.use(before)
    tokenizers.from_folder.cache_clear()


@pytest.fixture
def euler():
    """`euler(model, noise, sigmas, positive, negative, cfg)`: LATENT after plain Euler steps."""

    def run(model, noise, sigmas, positive, negative, cfg):
        guider = CFGGuider(model, positive, negative, cfg)
        return sample(guider, Sampler("euler"), sigmas, noise, torch.zeros_like(noise), seed=0)

    return run


@pytest.fixture
def word_tokenizer(tmp_path):
    """Makes a tokenizer folder in which every word is one token: `make(words, max_length) -> folder`."""

    def make(words, max_length, name="tokenizer", start=True):
        special = ["<start>", "<end>"] if start else ["<end>"]
        vocabulary = {word: number for number, word in enumerate([*special, "<unk>", *words])}
        tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
        tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<start> $A <end>" if start else "$A <end>",
            special_tokens=[(token, vocabulary[token]) for token in special],
        )
        folder = tmp_path / name
        folder.mkdir(parents=True)
        tokenizer.save(str(folder / "tokenizer.json"))
        (folder / "tokenizer_config.json").write_text(
            f'{{"model_max_length": {max_length}, "pad_token": "<end>"}}', encoding="utf-8"
        )
        return folder

    return make


def randomise(module, seed=0):
    """Weights with which every layer has a say: the usual initialisation leaves some at zero."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.ndim > 1 else 0.1
            noise = torch.randn(parameter.shape, generator=generator) * scale
            parameter.copy_(noise + (parameter.ndim == 1) * (parameter > 0.5))
    return module.eval()


@pytest.fixture
def randomised():
    return randomise
