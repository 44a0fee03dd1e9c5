"""Uploads and views, and the ways out of their folders that were found in ComfyUI."""

import asyncio
import io
import json

import aiohttp
import pytest
import trivial_host
from PIL import Image
from serving import connected


def run(work):
    return asyncio.run(work)


def png(color="red", size=(8, 8), mode="RGB"):
    out = io.BytesIO()
    Image.new(mode, size, color).save(out, "PNG")
    return out.getvalue()


def form(content, name="a.png", **fields):
    data = aiohttp.FormData(quote_fields=False)
    data.add_field("image", content, filename=name)
    for key, value in fields.items():
        data.add_field(key, value)
    return data


def test_upload_and_view(server):
    async def work():
        async with connected(server.url) as client:

            async def upload(content, **fields):
                return await client.post("/upload/image", data=form(content, **fields))

            first = {"name": "a.png", "subfolder": "", "type": "input"}
            assert await upload(png()) == first
            assert await upload(png()) == first
            assert await upload(png("blue")) == {**first, "name": "a (1).png"}
            assert await upload(png("green"), overwrite="true") == first
            assert await upload(png(), type="temp", subfolder="x/y") == {
                "name": "a.png",
                "subfolder": "x/y",
                "type": "temp",
            }
            assert await client.get("/view?filename=a.png&type=input") == png("green")
            assert await client.get("/api/view?filename=a.png%20[input]") == png("green")
            assert await client.get("/view?filename=a.png&type=temp&subfolder=x/y") == png()
            part = await client.get("/view?filename=a.png&type=input", 206, headers={"Range": "bytes=0-9"})
            assert part == png("green")[:10]
            webp = Image.open(io.BytesIO(await client.get("/view?filename=a.png&type=input&preview=webp;50")))
            assert (webp.format, webp.size) == ("WEBP", (8, 8))
            jpeg = Image.open(io.BytesIO(await client.get("/view?filename=a.png&type=input&preview=jpeg")))
            assert jpeg.format == "JPEG"

    run(work())


def test_channels_and_masks(server):
    async def work():
        async with connected(server.url) as client:
            await client.post(
                "/upload/image", data=form(png((255, 0, 0, 128), mode="RGBA"), name="alpha.png")
            )
            rgb = Image.open(io.BytesIO(await client.get("/view?filename=alpha.png&type=input&channel=rgb")))
            assert (rgb.mode, rgb.getpixel((0, 0))) == ("RGB", (255, 0, 0))
            alpha = Image.open(io.BytesIO(await client.get("/view?filename=alpha.png&type=input&channel=a")))
            assert alpha.getpixel((0, 0))[3] == 128
            await client.post("/upload/image", data=form(png("blue", (16, 16)), name="base.png"))
            reference = json.dumps({"filename": "base.png", "type": "input", "subfolder": ""})
            answer = await client.post(
                "/upload/mask",
                data=form(png((0, 0, 0, 77), mode="RGBA"), name="masked.png", original_ref=reference),
            )
            assert answer["name"] == "masked.png"
            kept = Image.open(io.BytesIO(await client.get("/view?filename=masked.png&type=input")))
            assert (kept.size, kept.getpixel((3, 3))) == ((16, 16), (0, 0, 255, 77))
            await client.post("/upload/mask", data=form(png(), original_ref="{"), status=400)
            missing = json.dumps({"filename": "none.png"})
            await client.post("/upload/mask", data=form(png(), original_ref=missing), status=404)

    run(work())


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("filename=none.png&type=input", 404),
        ("", 404),
        ("filename=a.png&type=nope", 400),
        ("filename=../log&type=input", 400),
        ("filename=/etc/passwd&type=input", 400),
        ("filename=passwd&type=input&subfolder=../../../../../../etc", 403),
        ("filename=passwd&type=input&subfolder=/etc", 403),
        ("filename=link&type=input", 403),
        ("filename=passwd&type=input&subfolder=folder", 403),
        ("filename=%00&type=input", 400),
        ("filename=a%00.png&type=input", 400),
        ("filename=passwd%20[input]&type=output&subfolder=..%2F..%2Fetc", 403),
    ],
)
def test_no_way_out_of_the_folders(server, query, status):
    """Path traversal (CVE-2026-56671, -56673) and symbolic links."""
    folder = server.folder / "input"
    folder.mkdir(exist_ok=True)
    for name, target in (("link", "/etc/passwd"), ("folder", "/etc")):
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(target)

    async def work():
        async with connected(server.url) as client:
            await client.get(f"/view?{query}", status=status)

    run(work())


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("../a.png", {}),
        ("/tmp/a.png", {}),
        ("..", {}),
        ("a.png", {"subfolder": "../../x"}),
        ("a.png", {"subfolder": "/tmp"}),
        ("a.png", {"type": "models"}),
        ("b.png", {"subfolder": "folder"}),
    ],
)
def test_uploads_stay_in_their_folder(server, name, fields):
    (server.folder / "input").mkdir(exist_ok=True)
    if not (server.folder / "input" / "folder").is_symlink():
        (server.folder / "input" / "folder").symlink_to("/etc")

    async def work():
        async with connected(server.url) as client:
            await client.post("/upload/image", data=form(png(), name=name, **fields), status=400)

    run(work())


def test_what_a_browser_would_run_is_a_download(server):
    """Stored scripts (CVE-2024-10099, CVE-2026-56670, -56672)."""

    async def work():
        async with connected(server.url) as client:
            for name in ("page.html", "picture.svg", "code.js", "style.css", "x.xhtml"):
                await client.post("/upload/image", data=form(b"<script>", name=name))
                async with client.session.get(f"{client.url}/view?filename={name}&type=input") as answer:
                    assert answer.content_type == "application/octet-stream", name
                    assert answer.headers["Content-Disposition"].startswith("attachment")
                    assert answer.headers["X-Content-Type-Options"] == "nosniff"
            await client.post("/userdata/page.html", data=b"<script>")
            async with client.session.get(f"{client.url}/userdata/page.html") as answer:
                assert answer.content_type == "application/octet-stream"
                assert answer.headers["Content-Disposition"] == "attachment"

    run(work())


def test_uploads_are_limited_in_size_and_pixels(start_server):
    server = start_server("--max-upload", "1")

    async def work():
        async with connected(server.url) as client:
            await client.post("/upload/image", data=form(b"x" * (2 << 20)), status=413)
            await client.post("/prompt", data=b" " * (2 << 20), status=413)
            large = png("black", (11_000, 10_000), "1")
            assert len(large) < 1 << 20
            answer = await client.post("/upload/image", data=form(large, name="large.png"), status=400)
            assert "11000x10000" in answer["error"]["message"]
            assert not list((server.folder / "input").glob("*.png"))

    run(work())


def test_user_data(server):
    async def work():
        async with connected(server.url) as client:
            await client.get("/userdata?dir=workflows", status=404)
            text = json.dumps({"nodes": []})
            assert await client.post("/userdata/workflows%2Fmy.json", data=text) == "workflows/my.json"
            listed = await client.get("/api/userdata?dir=workflows&recurse=true&split=false&full_info=true")
            assert [(one["path"], one["size"]) for one in listed] == [("my.json", len(text))]
            assert await client.get("/userdata/workflows%2Fmy.json") == {"nodes": []}
            await client.post("/userdata/workflows%2Fmy.json?overwrite=false", data="{}", status=409)
            moved = await client.post("/userdata/workflows%2Fmy.json/move/workflows%2Fsub%2Fits.json")
            assert moved == "workflows/sub/its.json"
            assert await client.get("/userdata?dir=workflows&recurse=true") == ["sub/its.json"]
            assert await client.get("/userdata?dir=workflows&recurse=true&split=true") == [
                ["sub/its.json", "sub", "its.json"]
            ]
            entries = await client.get("/v2/userdata?path=workflows")
            assert [(one["name"], one["type"]) for one in entries] == [("sub", "directory")]
            async with client.session.delete(f"{client.url}/userdata/workflows%2Fsub%2Fits.json") as answer:
                assert answer.status == 204
            for name in ("..%2Fqueue.sqlite3", "..%2F..%2Flog", "%2Fetc%2Fpasswd%00", "x" * 300):
                await client.get(f"/userdata/{name}", status=403)
                await client.post(f"/userdata/{name}", data="x", status=403)

    run(work())


def test_settings(server):
    async def work():
        async with connected(server.url) as client:
            await client.post("/settings/Comfy.Locale", "de")
            await client.post("/api/settings", {"other": [1]})
            assert await client.get("/settings") == {"Comfy.Locale": "de", "other": [1]}
            assert await client.get("/settings/Comfy.Locale") == "de"
            assert await client.get("/settings/unknown") is None
            assert await client.get("/users") == {"storage": "server", "migrated": True}

    run(work())


def test_models_and_what_files_say_of_themselves(server):
    async def work():
        async with connected(server.url) as client:
            assert "loras" in await client.get("/models")
            assert await client.get("/models/checkpoints") == ["shapes"]
            await client.get("/models/nothing", status=404)
            assert await client.get("/embeddings") == []
            assert "loras" in [one["name"] for one in await client.get("/experiment/models")]
            await client.get("/view_metadata/loras?filename=..%2Fx.safetensors", status=404)
            await client.get("/view_metadata/nothing?filename=x.safetensors", status=404)
            info = await client.get("/object_info")
            assert set(info) == set(trivial_host.NODES)
            assert await client.get("/object_info/Nothing") == {}
            stats = await client.get("/api/system_stats")
            assert stats["system"]["comfyui_version"]
            assert stats["devices"][0]["vram_total"] > 0

    run(work())
