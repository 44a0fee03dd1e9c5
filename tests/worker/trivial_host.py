"""A host of nodes that misbehave in the ways that workers have to cope with. Loaded in the worker process."""

import json
import os
import shutil
import signal
import time
import uuid
from contextlib import suppress

from PIL import Image
from PIL.PngImagePlugin import PngInfo
from slipstream.executor import context
from slipstream.executor.hosts.base import Host
from slipstream.executor.models import folders


class Steps:
    """Counts, with a preview at each step."""

    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", ("INT",), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"steps": ("INT", {"min": 1, "max": 10000}), "pause": ("FLOAT", {})}}

    def run(self, steps, pause):
        print("what nodes print does not get between the messages")
        for step in range(steps):
            time.sleep(pause)
            context.progress(step + 1, steps, lambda: Image.new("RGB", (1024, 64), "red"))
        return {"ui": {"pid": [os.getpid()], "steps": [steps]}, "result": (steps,)}


class Deaf:
    """Says that it runs, and does not listen to interrupts."""

    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"seconds": ("FLOAT", {})}}

    def run(self, seconds):
        with suppress(context.Interrupted):
            context.progress(0, 1)
        time.sleep(seconds)
        return {}


class Dies:
    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"by": (["kill", "segfault", "exit"],)}}

    def run(self, by):
        match by:
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "segfault":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exit":
                os._exit(3)


class Fails:
    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {}}

    def run(self):
        raise RuntimeError("as it was told to")


class Holds:
    """Takes that many megabytes, then `fails`, or counts for ever."""

    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"megabytes": ("INT", {}), "fails": ("BOOLEAN", {})}}

    def run(self, megabytes, fails):
        held = [bytearray(os.urandom(1 << 20)) for _ in range(megabytes)]
        if fails:
            raise RuntimeError("full")
        for step in range(1_000_000):
            context.progress(step, 1_000_000)
            time.sleep(0.01)
        return {"ui": {"held": [len(held)]}}


class Copy:
    """Copies a file from the input folder to the output folder."""

    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": (folders.input_names(), {"image_upload": True})}}

    def run(self, image):
        folders.output_dir().mkdir(parents=True, exist_ok=True)
        shutil.copyfile(folders.input_file(image), folders.output_dir() / "copy.png")
        return {"ui": {"images": [{"filename": "copy.png", "subfolder": "", "type": "output"}]}}


def save(picture, **inputs):
    """As what a node shows: a picture that holds what the node was called with."""
    folders.output_dir().mkdir(parents=True, exist_ok=True)
    info = PngInfo()
    info.add_text("inputs", json.dumps(inputs))
    name = f"{uuid.uuid4().hex}.png"
    picture.save(folders.output_dir() / name, pnginfo=info)
    return {"ui": {"images": [{"filename": name, "subfolder": "", "type": "output"}]}}


class Draw:
    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        whole = ("INT", {"min": 1, "max": 2**64 - 1})
        names = ("seed", "width", "height", "steps")
        return {"required": {"prompt": ("STRING", {}), **dict.fromkeys(names, whole)}}

    def run(self, steps, **inputs):
        for step in range(steps):
            context.progress(step + 1, steps, lambda: Image.new("RGB", (8, 8)))
        picture = Image.new("RGB", (inputs["width"], inputs["height"]))
        return save(picture, steps=steps, **inputs)


class Change:
    FUNCTION, RETURN_TYPES, OUTPUT_NODE = "run", (), True

    @classmethod
    def INPUT_TYPES(cls):
        return {"required": {"image": ("STRING", {"image_upload": True}), "prompt": ("STRING", {})}}

    def run(self, image, prompt):
        picture = Image.open(folders.input_file(image))
        return save(picture, size=picture.size, prompt=prompt)


NODES = {kind.__name__: kind for kind in (Steps, Deaf, Dies, Fails, Holds, Copy, Draw, Change)}


def host():
    return Host(NODES)


def broken():
    raise RuntimeError("no nodes today")
