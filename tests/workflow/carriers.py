"""Small files of every kind that carries a workflow, written as ComfyUI and its savers write them.

The options are those of ComfyUI 0.3.64 (SaveVideo, SaveWEBM, SaveAudio, SaveLatent, SaveGLB, SaveSVGNode), of
VideoHelperSuite and of the savers named at the functions.
"""

import io
import json
import struct
import zlib
from fractions import Fraction

import av
from PIL import Image, features
from PIL.PngImagePlugin import PngInfo

PROMPT = {
    "1": {"class_type": "EmptyLatentImage", "inputs": {"width": 64, "batch_size": 1}},
    "2": {"class_type": "SaveImage", "inputs": {"images": ["1", 0], "filename_prefix": "é; #=\n\\ €"}},
}
CANVAS = {"nodes": [{"id": 1, "type": "SaveImage", "widgets_values": ["x: é €"]}], "links": [], "extra": {}}
TEXTS = {"prompt": json.dumps(PROMPT), "workflow": json.dumps(CANVAS)}
MAKE, MODEL, DESCRIPTION, USER_COMMENT, EXIF_DIRECTORY = 0x010F, 0x0110, 0x010E, 0x9286, 0x8769


def saved(picture_format, **options):
    out = io.BytesIO()
    Image.new("RGB", (8, 8), "red").save(out, picture_format, **options)
    return out.getvalue()


def png(**texts):
    info = PngInfo()
    for key, text in texts.items():
        info.add_text(key, text)
    return saved("PNG", pnginfo=info, compress_level=4)


def png_compressed(chunk):
    """`zTXt` or compressed `iTXt`, as Pillow writes them when asked."""
    info = PngInfo()
    for key, text in TEXTS.items():
        if chunk == "zTXt":
            info.add_text(key, text, zip=True)
        else:
            info.add_itxt(key, text, zip=True)
    return saved("PNG", pnginfo=info)


def animated_png():
    info = PngInfo()
    for key, text in TEXTS.items():
        info.add(b"comf", key.encode("latin-1") + b"\0" + text.encode("latin-1", "strict"), after_idat=True)
    frames = [Image.new("RGB", (8, 8), "blue")]
    return saved("PNG", pnginfo=info, save_all=True, append_images=frames, duration=100, compress_level=4)


def comfy_exif(**texts):
    """ComfyUI's WebP: the prompt in Model, the rest from Make downwards."""
    exif, tag = Image.Exif(), MAKE
    for key, text in texts.items():
        if key == "prompt":
            exif[MODEL] = f"prompt:{text}"
        else:
            exif[tag] = f"{key}:{text}"
            tag -= 1
    return exif


def was_exif():
    """The WAS suite."""
    exif = Image.Exif()
    exif[DESCRIPTION] = "Workflow:" + TEXTS["workflow"]
    exif[MAKE] = "Prompt:" + TEXTS["prompt"]
    return exif


def keyless_exif():
    """SaveImgAdv."""
    exif = Image.Exif()
    exif[MAKE] = TEXTS["prompt"]
    exif[DESCRIPTION] = TEXTS["workflow"]
    return exif


def extended_exif():
    """Extended Image Formats: UserComment beside the other tags, as ASCII."""
    exif = Image.Exif()
    exif[USER_COMMENT] = json.dumps({"prompt": PROMPT, "workflow": CANVAS})
    return exif


def comment_exif(code, encoding):
    """UserComment in the Exif directory, as piexif and exiftool write it."""
    comment = json.dumps({"prompt": PROMPT, "workflow": CANVAS}, ensure_ascii=encoding == "ascii")
    exif = Image.Exif()
    exif.get_ifd(EXIF_DIRECTORY)[USER_COMMENT] = code + comment.encode(encoding)
    return exif


def animated_webp():
    frames = [Image.new("RGB", (8, 8), "blue")]
    options = {"save_all": True, "append_images": frames, "duration": 100, "lossless": True, "method": 4}
    return saved("WEBP", exif=comfy_exif(**TEXTS), **options)


def video(container_format, codec, tags, **options):
    out = io.BytesIO()
    with av.open(out, mode="w", format=container_format, options=options) as container:
        for key, text in tags.items():
            container.metadata[key] = text
        stream = container.add_stream(codec, rate=Fraction(8))
        stream.width = stream.height = 32
        stream.pix_fmt = "yuv420p"
        container.mux(stream.encode(av.VideoFrame.from_image(Image.new("RGB", (32, 32), "red"))))
        container.mux(stream.encode(None))
    return out.getvalue()


def helper_suite(**extra):
    """VideoHelperSuite: one comment in which the prompt is JSON text and the canvas an object."""
    return {"comment": json.dumps({"prompt": TEXTS["prompt"], "workflow": CANVAS, **extra})}


def sound(container_format, codec, tags=TEXTS):
    out = io.BytesIO()
    with av.open(out, mode="w", format=container_format) as container:
        for key, text in tags.items():
            container.metadata[key] = text
        stream = container.add_stream(codec, rate=48000, layout="mono")
        frame = av.AudioFrame(format="flt", layout="mono", samples=960)
        frame.planes[0].update(bytes(frame.planes[0].buffer_size))
        frame.sample_rate, frame.pts = 48000, 0
        resampler = av.AudioResampler(format=stream.format, layout="mono", rate=48000)
        for part in resampler.resample(frame):
            container.mux(stream.encode(part))
        container.mux(stream.encode(None))
    return out.getvalue()


def latent(metadata):
    """What safetensors' `save_file` writes for one tensor of four bytes."""
    tensor = {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}
    header = json.dumps({"__metadata__": metadata, "latent_tensor": tensor}).encode()
    return struct.pack("<Q", len(header)) + header + bytes(4)


def glb(extras):
    header = json.dumps({"asset": {"version": "2.0", "extras": extras}, "scene": 0}).encode()
    header += b" " * (-len(header) % 4)
    start = struct.pack("<4sII", b"glTF", 2, 28 + len(header))
    return start + struct.pack("<I4s", len(header), b"JSON") + header + struct.pack("<I4s", 0, b"BIN\0")


def svg(metadata):
    element = f"  <metadata>\n    <![CDATA[\n  {json.dumps(metadata, indent=2)}\n  ]]>\n  </metadata>\n"
    return f'<svg xmlns="http://www.w3.org/2000/svg" width="8">\n{element}<path d="M0 0"/></svg>'.encode()


def chunk(kind, data):
    """A PNG chunk."""
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def with_chunks(*chunks):
    """The chunks behind the header of a PNG."""
    plain = saved("PNG")
    return plain[:33] + b"".join(chunks) + plain[33:]


TAGS_IN_MP4 = {"movflags": "use_metadata_tags"}
ALL = {
    "png": png(**TEXTS),
    "png zTXt": png_compressed("zTXt"),
    "png iTXt": png_compressed("iTXt"),
    "apng": animated_png(),
    "webp": saved("WEBP", exif=comfy_exif(**TEXTS)),
    "animated webp": animated_webp(),
    "jpeg": saved("JPEG", exif=comfy_exif(**TEXTS)),
    "jpeg was": saved("JPEG", exif=was_exif()),
    "webp keyless": saved("WEBP", exif=keyless_exif()),
    "webp extended": saved("WEBP", exif=extended_exif()),
    "jpeg comment": saved("JPEG", exif=comment_exif(b"ASCII\0\0\0", "ascii")),
    "jpeg comment utf-16": saved("JPEG", exif=comment_exif(b"UNICODE\0", "utf-16-be")),
    "webp comment utf-16": saved("WEBP", exif=comment_exif(b"UNICODE\0", "utf-16-le")),
    "webp comment utf-8": saved("WEBP", exif=comment_exif(bytes(8), "utf-8")),
    **({"avif": saved("AVIF", exif=comfy_exif(**TEXTS), speed=10)} if features.check("avif") else {}),
    "mp4": video("mp4", "h264", TEXTS, **TAGS_IN_MP4),
    "mov": video("mov", "h264", TEXTS, **TAGS_IN_MP4),
    "webm": video("webm", "libvpx-vp9", TEXTS),
    "mkv": video("matroska", "h264", TEXTS),
    "mp4 helper suite": video("mp4", "h264", helper_suite()),
    "mov helper suite": video("mov", "h264", helper_suite()),
    "webm helper suite": video("webm", "libvpx-vp9", helper_suite()),
    "mkv helper suite": video("matroska", "h264", helper_suite()),
    "flac": sound("flac", "flac"),
    "mp3": sound("mp3", "libmp3lame"),
    "opus": sound("opus", "libopus"),
    "ogg": sound("ogg", "flac"),
    "latent": latent(TEXTS),
    "glb": glb(TEXTS),
    "svg": svg({"prompt": PROMPT, "workflow": CANVAS}),
}
