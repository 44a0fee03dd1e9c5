"""Routes of pictures and other files: /view, /upload/image, /upload/mask, /view_metadata."""

from __future__ import annotations

import asyncio
import hashlib
import io
import json
import mimetypes
import uuid
from pathlib import Path
from typing import Any

from aiohttp import web

from ..models import folders
from ..models.naming import claim
from .answers import bad_request, form, refuse

# What a browser would run, or take for a page of ours: always handed out as a download.
ACTIVE = frozenset(
    {
        "text/html",
        "application/xhtml+xml",
        "text/javascript",
        "application/javascript",
        "text/css",
        "image/svg+xml",
        "text/xml",
        "application/xml",
        "application/pdf",
    }
)
PICTURES = {"webp": "WEBP", "jpeg": "JPEG"}
METADATA_LIMIT = 100_000_000  # bytes of a safetensors header


class Files:
    """`largest` is the size of an upload in bytes, `pixels` the most that a picture of it may have."""

    def __init__(self, largest: int, pixels: int):
        self._largest = largest
        self._pixels = pixels

    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/view", self.view),
            web.post("/upload/image", self.upload_image),
            web.post("/upload/mask", self.upload_mask),
            web.get("/view_metadata/{kind}", self.metadata),
        ]

    async def view(self, request: web.Request) -> web.StreamResponse:
        """GET /view?filename=&subfolder=&type=&preview=&channel="""
        path = _found(request.query)
        name = path.name.replace('"', "")
        disposition = f'filename="{name}"'
        headers = {"Content-Disposition": disposition, "X-Content-Type-Options": "nosniff"}
        preview, channel = request.query.get("preview"), request.query.get("channel", "rgba")
        if preview is not None or channel in ("rgb", "a"):
            if preview is None:
                work, kind = _channel, channel
            else:
                work, kind = _preview, preview
            try:
                content, media = await asyncio.to_thread(work, path, kind, self._pixels)
            except (OSError, ValueError, SyntaxError) as error:
                raise web.HTTPUnsupportedMediaType(text=f"no picture that can be shown: {error}") from error
            return web.Response(body=content, content_type=media, headers=headers)
        media = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
        if media in ACTIVE:
            media = "application/octet-stream"
            headers["Content-Disposition"] = f"attachment; {disposition}"
        headers["Content-Type"] = media
        return web.FileResponse(path, headers=headers)

    async def upload_image(self, request: web.Request) -> web.Response:
        fields, upload = await self._read(request)
        if upload is None or not upload[0]:
            return web.Response(status=400)
        name, content = upload
        return await self._keep(fields, name, content)

    async def upload_mask(self, request: web.Request) -> web.Response:
        """The alpha channel of what is uploaded, put onto the picture that `original_ref` names."""
        fields, upload = await self._read(request)
        if upload is None or not upload[0]:
            return web.Response(status=400)
        name, content = upload
        try:
            reference = json.loads(fields.get("original_ref", ""))
        except ValueError:
            return refuse(400, "invalid_request", "original_ref must name a picture, as JSON")
        if not isinstance(reference, dict) or not all(isinstance(v, str) for v in reference.values()):
            return refuse(400, "invalid_request", "original_ref must be {filename, subfolder, type}")
        original = _found({"type": "output", **reference})
        try:
            merged = await asyncio.to_thread(_with_alpha, original, content, self._pixels)
        except (OSError, ValueError, SyntaxError) as error:
            return refuse(400, "invalid_picture", f"no picture that can be read: {error}")
        return await self._keep(fields, name, merged)

    async def metadata(self, request: web.Request) -> web.Response:
        """GET /view_metadata/{kind}?filename=: what a safetensors file says of itself."""
        name = request.query.get("filename", "")
        if not name.endswith(".safetensors"):
            return web.Response(status=404)
        try:
            path = folders.find(request.match_info["kind"], name)
        except folders.ModelNotFound:
            return web.Response(status=404)
        said = await asyncio.to_thread(_header, path)
        return web.Response(status=404) if said is None else web.json_response(said)

    async def _read(self, request: web.Request) -> tuple[dict[str, str], tuple[str, bytes] | None]:
        """The text fields of a form, and its file `image`: name and content."""
        fields: dict[str, str] = {}
        upload = None
        async for part in form(request, self._largest):
            if part.name == "image":
                upload = (part.filename or "", part.content)
            else:
                fields[part.name] = part.content.decode("utf-8", "replace")
        return fields, upload

    async def _keep(self, fields: dict[str, str], name: str, content: bytes) -> web.Response:
        kind = fields.get("type") or "input"
        subfolder = fields.get("subfolder", "")
        if not (name + subfolder).isprintable():
            raise bad_request("a name may not hold control characters")
        try:
            folder = folders.contained(folders.by_type(kind), subfolder)
            target = folders.contained(folder, name)
        except (folders.OutsideFolder, ValueError) as error:
            raise web.HTTPBadRequest(text=str(error)) from error
        if target == folder or Path(name).name != name or "\\" in name:
            raise web.HTTPBadRequest(text="a file needs a name without a folder")
        overwrite = fields.get("overwrite", "").lower() in ("true", "1")
        try:
            await asyncio.to_thread(_check_picture, content, name, self._pixels)
            kept = await asyncio.to_thread(write_upload, target, content, overwrite=overwrite)
        except ValueError as error:
            return refuse(400, "invalid_picture", str(error))
        except OSError as error:
            return refuse(507, "not_written", f"{name} cannot be written: {error.strerror or error}")
        return web.json_response({"name": kept, "subfolder": subfolder, "type": kind})


def _found(query: Any) -> Path:
    """The file that a reference names. Raises 400, 403 or 404 as ComfyUI does."""
    name = query.get("filename")
    if not name:
        raise web.HTTPNotFound
    kind = query.get("type", "output")
    try:
        directory = folders.by_type(kind)
        if name.endswith(("[input]", "[output]", "[temp]")):
            directory, name = folders.annotated(name)
        if name.startswith("/") or ".." in name:
            raise web.HTTPBadRequest
        folder = folders.contained(directory, query.get("subfolder", ""))
        path = folders.contained(folder, Path(name).name)
        folders.contained(directory, str(path.relative_to(directory)))
    except folders.BadName as error:
        raise web.HTTPBadRequest from error
    except folders.OutsideFolder as error:
        raise web.HTTPForbidden from error
    if not path.is_file():
        raise web.HTTPNotFound
    return path


def _opened(source: Path | io.BytesIO, pixels: int) -> Any:
    from PIL import Image

    picture = Image.open(source)
    if picture.width * picture.height > pixels:
        raise ValueError(
            f"a picture may have {pixels:,} pixels, this one has {picture.width}x{picture.height}"
        )
    return picture


def _preview(path: Path, wanted: str, pixels: int) -> tuple[bytes, str]:
    """`webp;50`: a format, and a quality if one is given."""
    form, _, quality = wanted.partition(";")
    form = form if form in PICTURES else "webp"
    with _opened(path, pixels) as picture:
        if form == "jpeg" or picture.mode not in ("RGB", "RGBA"):
            picture = picture.convert("RGB" if form == "jpeg" else "RGBA")
        out = io.BytesIO()
        picture.save(out, PICTURES[form], quality=int(quality) if quality.isdigit() else 90)
    return out.getvalue(), f"image/{form}"


def _channel(path: Path, channel: str, pixels: int) -> tuple[bytes, str]:
    """`rgb` without its transparency; `a` as black with it."""
    from PIL import Image

    with _opened(path, pixels) as picture:
        out = io.BytesIO()
        if channel == "rgb":
            picture.convert("RGB").save(out, "PNG")
        else:
            alpha = picture.convert("RGBA").getchannel("A")
            black = Image.new("RGBA", picture.size)
            black.putalpha(alpha)
            black.save(out, "PNG")
    return out.getvalue(), "image/png"


def _with_alpha(original: Path, mask: bytes, pixels: int) -> bytes:
    from PIL.PngImagePlugin import PngInfo

    with _opened(original, pixels) as picture, _opened(io.BytesIO(mask), pixels) as masked:
        kept = PngInfo()
        for key, value in getattr(picture, "text", {}).items():
            kept.add_text(key, value)
        result = picture.convert("RGBA")
        result.putalpha(masked.convert("RGBA").getchannel("A").resize(result.size))
        out = io.BytesIO()
        result.save(out, "PNG", pnginfo=kept)
    return out.getvalue()


def _check_picture(content: bytes, name: str, pixels: int) -> None:
    """Raises ValueError for a picture of too many pixels. Files of other kinds are none of this' business."""
    from PIL import Image, UnidentifiedImageError

    if not (mimetypes.guess_type(name)[0] or "").startswith("image/"):
        return
    try:
        _opened(io.BytesIO(content), pixels).close()
    except UnidentifiedImageError:
        return  # LoadImage will say so
    except Image.DecompressionBombError as error:
        raise ValueError(str(error)) from error


def write_upload(target: Path, content: bytes, *, overwrite: bool) -> str:
    """Keep an upload whole or not at all; returns its name. One of that name with the same content serves;
    with other content, the new one is called `name (1).png`."""
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{uuid.uuid4().hex}")
    try:
        temporary.write_bytes(content)
        if overwrite:
            temporary.replace(target)
            return target.name
        digest = hashlib.sha256(content).digest()
        kept, number = target, 0
        while not claim(temporary, kept):
            if kept.is_file() and hashlib.sha256(kept.read_bytes()).digest() == digest:
                break
            number += 1
            kept = target.with_name(f"{target.stem} ({number}){target.suffix}")
        return kept.name
    finally:
        temporary.unlink(missing_ok=True)


def _header(path: Path) -> dict[str, Any] | None:
    """The `__metadata__` of a safetensors file; None where it has none, or is damaged."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if not 0 < length <= METADATA_LIMIT:
            return None
        try:
            header = json.loads(file.read(length))
        except ValueError:
            return None
    said = header.get("__metadata__") if isinstance(header, dict) else None
    return said if isinstance(said, dict) else None
