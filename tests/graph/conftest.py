"""Stand-in node classes, and a way to run prompts on them."""

import asyncio
from dataclasses import dataclass, field

import pytest
from slipstream.executor import context
from slipstream.executor.blocker import ExecutionBlocker
from slipstream.executor.graph import Engine, GraphBuilder, events


class AnyType(str):
    """The string that custom nodes use to accept every type."""

    def __ne__(self, other):
        return False


ANY = AnyType("*")
SIZE = {"default": 512, "min": 1, "max": 16384, "step": 1}


def node_class(function, inputs, outputs=("*",), **attributes):
    """A class whose node is called as `function(**inputs)`; keys of `inputs` ending in `?` are optional,
    in `!` hidden."""
    types = {
        "required": {name: spec for name, spec in inputs.items() if name[-1] not in "?!"},
        "optional": {name[:-1]: spec for name, spec in inputs.items() if name[-1] == "?"},
        "hidden": {name[:-1]: spec for name, spec in inputs.items() if name[-1] == "!"},
    }
    if asyncio.iscoroutinefunction(function):

        async def run(self, **given):
            return await function(**given)
    else:

        def run(self, **given):
            return function(**given)

    return type(
        "Node",
        (),
        {
            "INPUT_TYPES": classmethod(lambda cls: types),
            "RETURN_TYPES": tuple(outputs),
            "FUNCTION": "run",
            "run": run,
            **attributes,
        },
    )


class Files:
    """Hands out the file names that PreviewImage and SaveImage answer with."""

    def __init__(self):
        self.names = []

    def save(self, **_):
        images = self.names.pop(0) if self.names else []
        return {"ui": {"images": images}}


class LazyMix:
    """Mixes two images by a mask, and evaluates only those that it needs."""

    @classmethod
    def INPUT_TYPES(cls):
        lazy = ("IMAGE", {"lazy": True})
        return {"required": {"image1": lazy, "image2": lazy, "mask": ("MASK",)}}

    RETURN_TYPES = ("IMAGE",)
    FUNCTION = "mix"

    def check_lazy_status(self, mask, image1=None, image2=None):
        return (["image1"] if image1 is None and mask < 1 else []) + (
            ["image2"] if image2 is None and mask > 0 else []
        )

    def mix(self, mask, image1=None, image2=None):
        return ((image1 or 0) * (1 - mask) + (image2 or 0) * mask,)


def _cycle(input1, input2):
    graph = GraphBuilder()
    mask = graph.node("StubMask", value=0.5, height=32, width=32, batch_size=1)
    first = graph.node("TestLazyMixImages", image1=input1, mask=mask.out(0))
    second = graph.node("TestLazyMixImages", image1=first.out(0), image2=input2, mask=mask.out(0))
    first.set_input("image2", second.out(0))
    return {"result": (second.out(0),), "expand": graph.finalize()}


def _expand(image, count):
    graph = GraphBuilder()
    for _ in range(count):
        image = graph.node("ImageInvert", image=image).out(0)
    return {"result": (image,), "expand": graph.finalize()}


def _sleep(seconds, tag, steps, preview):
    for step in range(steps):
        context.progress(step + 1, steps, (lambda: "picture") if preview else None)
    context.check()
    return (tag,)


def _raise(image, message):
    raise ValueError(message)


@pytest.fixture
def files():
    return Files()


@pytest.fixture
def nodes(files):
    """The classes that the captured prompts use, with their inputs, on numbers instead of pictures."""
    image = ("IMAGE",)
    size = {"width": ("INT", SIZE), "height": ("INT", SIZE), "batch_size": ("INT", {"default": 1, "min": 1})}
    stub = {"height": ("INT", SIZE), "width": ("INT", SIZE), "batch_size": ("INT", {"default": 1})}
    hidden = {"prompt!": "PROMPT", "extra_pnginfo!": "EXTRA_PNGINFO"}
    methods = ["nearest-exact", "bilinear", "area", "bicubic", "lanczos"]

    def missing(cls, image):
        return f"Invalid image file: {image}"

    return {
        "EmptyImage": node_class(
            lambda color, **_: (color,), {**size, "color": ("INT", {"default": 0})}, ("IMAGE",)
        ),
        "EmptyLatentImage": node_class(lambda **_: ({},), size, ("LATENT",)),
        "ImageInvert": node_class(lambda image: (1 - image,), {"image": image}, ("IMAGE",)),
        "ImageScale": node_class(
            lambda image, **_: (image,),
            {
                "image": image,
                "upscale_method": (methods,),
                "width": ("INT", {"default": 512, "min": 0}),
                "height": ("INT", {"default": 512, "min": 0}),
                "crop": (["disabled", "center"],),
            },
            ("IMAGE",),
        ),
        "LoadImage": node_class(
            lambda image: (image,), {"image": ([],)}, ("IMAGE", "MASK"), VALIDATE_INPUTS=classmethod(missing)
        ),
        "PreviewImage": node_class(files.save, {"images": image, **hidden}, (), OUTPUT_NODE=True),
        "SaveImage": node_class(
            files.save, {"images": image, "filename_prefix": ("STRING", {}), **hidden}, (), OUTPUT_NODE=True
        ),
        "LabError": node_class(_raise, {"image": image, "message": ("STRING", {})}, ("IMAGE",)),
        "LabBlock": node_class(
            lambda image, message: (ExecutionBlocker(message or None),),
            {"image": image, "message": ("STRING", {})},
            ("IMAGE",),
        ),
        "LabExpand": node_class(_expand, {"image": image, "count": ("INT", {})}, ("IMAGE",)),
        "LabSleep": node_class(
            _sleep,
            {
                "seconds": ("FLOAT", {"default": 0.0}),
                "tag": ("INT", {"default": 0}),
                "steps": ("INT", {"default": 0}),
                "preview": ("BOOLEAN", {"default": False}),
            },
            ("IMAGE",),
        ),
        "StubImage": node_class(
            lambda content, **_: ({"BLACK": 0.0, "WHITE": 1.0}[content],),
            {"content": (["WHITE", "BLACK", "NOISE"],), **stub},
            ("IMAGE",),
        ),
        "StubMask": node_class(lambda value, **_: (value,), {"value": ("FLOAT", {}), **stub}, ("MASK",)),
        "TestLazyMixImages": LazyMix,
        "TestDynamicDependencyCycle": node_class(_cycle, {"input1": image, "input2": image}, ("IMAGE",)),
    }


@dataclass
class Runner:
    """Runs prompts on one engine. Beside the given classes it knows `Value` (a constant of any type), and
    `Show` (an output node that shows what reaches its input `value`, one list element a time)."""

    classes: dict = field(default_factory=dict)
    cache: str = "classic"
    on_error: object = None

    def __post_init__(self):
        self.nodes = {
            "Value": node_class(lambda value: (value,), {"value": (ANY,)}, (ANY,)),
            "Show": node_class(
                lambda value: {"ui": {"value": [value]}}, {"value": (ANY,)}, (), OUTPUT_NODE=True
            ),
            **self.classes,
        }
        self.engine = Engine(self.nodes, self.cache, self.on_error)
        self.events = []

    def __call__(self, prompt, **options):
        """Run the prompt; `events` are then those of this run. `prompt` may be a GraphBuilder."""
        self.events = []
        prompt = prompt.finalize() if isinstance(prompt, GraphBuilder) else prompt
        return self.engine.run(prompt, prompt_id="p", sink=self.events.append, **options)

    def shown(self, prompt, **options):
        """What the prompt's only Show node shows."""
        result = self(prompt, **options)
        assert result.status == "success", result.error
        (output,) = result.outputs.values()
        return output["value"]

    def started(self):
        return [event.node for event in self.events if isinstance(event, events.NodeStarted)]


@pytest.fixture
def any_type():
    return ANY


@pytest.fixture
def make_class():
    return node_class


@pytest.fixture
def runner():
    return Runner
