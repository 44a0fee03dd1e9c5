"""ComfyUI's own frontend, in a headless browser, as the judge of what a canvas file means.

A developer's tool. It needs the packages `comfyui-frontend-package` and `playwright` and a Chromium; what is
missing, `missing()` says. It writes the prompt that the frontend queues for every canvas file in a folder,

    python tests/workflow/frontend.py OBJECT_INFO FOLDER_OR_FILE... --to OUT.jsonl

or, for the files of two packages whose node types are all known, digests of the file and of the prompt:

    python tests/workflow/frontend.py OBJECT_INFO --digests --to tests/data/canvas/digests.json
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import hashlib
import json
import shutil
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aiohttp import web

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
SECONDS_TO_START = 120
SECONDS_FOR_A_FILE = 60

# What the frontend asks before it shows a canvas, besides its own files and /object_info.
ANSWERS: dict[str, Any] = {
    "features": {"supports_preview_metadata": True, "max_upload_size": 104857600},
    "users": {"storage": "server", "migrated": True},
    "settings": {"Comfy.TutorialCompleted": True, "Comfy.Workflow.ShowMissingModelsWarning": False},
    "system_stats": {
        "system": {
            "os": "posix",
            "ram_total": 8 << 30,
            "ram_free": 4 << 30,
            "comfyui_version": "0.3.64",
            "python_version": "3.11",
            "pytorch_version": "2.8",
            "embedded_python": False,
            "argv": ["main.py"],
        },
        "devices": [],
    },
    "i18n": {},
    "extensions": [],
    "workflow_templates": {},
    "global_subgraphs": {},
    "userdata": [],
    "experiment/models": [],
    "jobs": {"jobs": [], "pagination": {"offset": 0, "limit": 200, "total": 0, "has_more": False}},
    "queue": {"queue_running": [], "queue_pending": []},
    "history": {},
}

CONVERT = """async (canvas) => {
    const app = window.app ?? window.comfyAPI.app.app;
    await app.loadGraphData(canvas, true, false);
    return JSON.stringify((await app.graphToPrompt()).output);
}"""


def missing() -> str:
    """What has to be installed before the frontend can be asked, or "" where all is there."""
    packages = {"comfyui_frontend_package": "comfyui-frontend-package", "playwright": "playwright"}
    wanted = [name for module, name in packages.items() if find_spec(module) is None]
    parts = [f"pip install {' '.join(wanted)}"] if wanted else []
    if browser() is None:
        parts.append("a Chromium on the PATH (apt-get install chromium)")
    return " and ".join(parts)


def browser() -> str | None:
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


def _static() -> Path:
    spec = find_spec("comfyui_frontend_package")
    return Path(spec.submodule_search_locations[0]) / "static"


def _server(object_info: dict[str, Any]) -> web.Application:
    """The frontend's files and the fewest answers with which it starts."""
    root = _static()
    definitions = json.dumps({name: _complete(name, entry) for name, entry in object_info.items()})

    async def answer(request: web.Request) -> web.StreamResponse:
        path = request.path.strip("/").removeprefix("api/")
        if path == "ws":
            return await _socket(request)
        if path == "object_info":
            return web.Response(text=definitions, content_type="application/json")
        if path in ANSWERS:
            return web.json_response(ANSWERS[path])
        file = (root / (path or "index.html")).resolve()
        if file.is_file() and file.is_relative_to(root.resolve()):
            return web.FileResponse(file)
        return web.Response(status=200 if request.method == "POST" else 404)

    application = web.Application()
    application.router.add_route("*", "/{path:.*}", answer)
    return application


def _complete(name: str, definition: dict[str, Any]) -> dict[str, Any]:
    """A definition with the entries that the frontend does not do without."""
    outputs = definition.get("output") or []
    least = {"name": name, "display_name": name, "category": "", "description": "", "python_module": "nodes"}
    listed = {"output_name": outputs, "output_is_list": [False] * len(outputs), "output_node": False}
    return {**least, **listed, **definition}


async def _socket(request: web.Request) -> web.WebSocketResponse:
    socket = web.WebSocketResponse()
    await socket.prepare(request)
    status = {"status": {"exec_info": {"queue_remaining": 0}}, "sid": "frontend"}
    await socket.send_json({"type": "status", "data": status})
    async for _ in socket:
        pass
    return socket


@asynccontextmanager
async def opened(object_info: dict[str, Any]) -> AsyncIterator[Any]:
    """A page on which the frontend is ready for `converted`."""
    from playwright.async_api import async_playwright

    runner = web.AppRunner(_server(object_info), shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=browser(), args=["--no-sandbox", "--disable-gpu"]
        )
        page = await chromium.new_page()
        await page.goto(f"http://127.0.0.1:{port}/")
        # It ends its start by opening a workflow of its own.
        await page.wait_for_function(
            "() => (window.app ?? window.comfyAPI?.app?.app)?.rootGraph?.nodes.length",
            timeout=SECONDS_TO_START * 1000,
        )
        try:
            yield page
        finally:
            await chromium.close()
            await runner.cleanup()


async def converted(page: Any, canvas: dict[str, Any]) -> dict[str, Any]:
    """The prompt that the frontend queues for the canvas. Raises what went wrong in the browser."""
    text = await asyncio.wait_for(page.evaluate(CONVERT, _drawable(canvas)), SECONDS_FOR_A_FILE)
    return json.loads(text)


NODE = {"pos": [0, 0], "size": [100, 100], "flags": {}, "order": 0}
BORDERS = {
    "inputNode": {"id": -10, "bounding": [0, 0, 120, 60]},
    "outputNode": {"id": -20, "bounding": [0, 0, 120, 60]},
}


def _drawable(content: Any, least: Mapping[str, Any] = MappingProxyType({})) -> Any:
    """With what the frontend needs to draw nodes and subgraphs, which says nothing of what they mean."""
    if isinstance(content, list):
        return [_drawable(entry, least) for entry in content]
    if not isinstance(content, dict):
        return content
    needed = {"nodes": NODE, "subgraphs": BORDERS}
    return {**least, **{key: _drawable(value, needed.get(key, {})) for key, value in content.items()}}


async def convert_all(
    object_info: dict[str, Any], canvases: Iterable[tuple[str, dict[str, Any]]]
) -> AsyncIterator[tuple[str, dict[str, Any] | None, str]]:
    """(name, prompt, "") for each canvas, or (name, None, what went wrong)."""
    async with opened(object_info) as page:
        for name, canvas in canvases:
            yield name, *await _asked(page, canvas)


async def _asked(page: Any, canvas: dict[str, Any]) -> tuple[dict[str, Any] | None, str]:
    try:
        return await converted(page, canvas), ""
    except Exception as error:  # what goes wrong in the browser is the answer
        return None, str(error).splitlines()[0]


def read_json(path: Path) -> Any:
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if path.suffix == ".gz" else data)


PACKAGES = {"comfyui-workflow-templates-json": "templates", "comfyui-subgraph-blueprints": "blueprints"}
CANVAS_ONLY = ("Note", "MarkdownNote", "Reroute", "PrimitiveNode")


def packaged() -> list[Path]:
    """The canvas files of the packages, as far as these are installed."""
    files: list[Path] = []
    for package, folder in PACKAGES.items():
        spec = find_spec(package.replace("-", "_"))
        if spec is not None:
            files += sorted((Path(spec.submodule_search_locations[0]) / folder).glob("*.json"))
    return [file for file in files if is_canvas(read_json(file))]


def is_canvas(content: Any) -> bool:
    return isinstance(content, dict) and isinstance(content.get("nodes"), list)


def all_known(canvas: Mapping[str, Any], object_info: Mapping[str, Any]) -> bool:
    """Whether a server with these definitions knows every node type of the file."""
    subgraphs = (canvas.get("definitions") or {}).get("subgraphs") or []
    known = {*object_info, *CANVAS_ONLY, *(subgraph["id"] for subgraph in subgraphs)}
    return all(node["type"] in known for graph in (canvas, *subgraphs) for node in graph["nodes"])


def digest_of(prompt: Mapping[str, Any]) -> str:
    """Of what a prompt says: titles are for people, and the frontend translates those of classes."""
    said = {
        key: {**node, "_meta": {name: text for name, text in node["_meta"].items() if name != "title"}}
        for key, node in prompt.items()
    }
    return hashlib.sha256(json.dumps(javascript(said), sort_keys=True).encode()).hexdigest()


def javascript(value: Any) -> Any:
    """Numbers as JavaScript has them: 1.0 is 1; True stays apart from 1."""
    if isinstance(value, dict):
        return {key: javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [javascript(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _canvases(paths: Iterable[Path]) -> Iterable[tuple[str, dict[str, Any]]]:
    files = (file for path in paths for file in (sorted(path.glob("*.json")) if path.is_dir() else [path]))
    for file in files:
        content = read_json(file)
        if is_canvas(content):
            yield file.stem, content


async def _write_prompts(object_info: dict[str, Any], paths: Iterable[Path], to: Path) -> None:
    with to.open("w", encoding="utf-8") as out:
        async for name, prompt, error in convert_all(object_info, _canvases(paths)):
            entry = {"name": name, "prompt": prompt} if prompt is not None else {"name": name, "error": error}
            out.write(json.dumps(entry, ensure_ascii=False) + "\n")
            print(name, error or f"{len(prompt)} nodes", flush=True)


async def _write_digests(object_info: dict[str, Any], to: Path) -> None:
    files = {file.name: file for file in packaged() if all_known(read_json(file), object_info)}
    digests = {}
    canvases = ((name, read_json(file)) for name, file in files.items())
    async for name, prompt, error in convert_all(object_info, canvases):
        if prompt is None:
            raise SystemExit(f"{name}: {error}")
        digests[name] = [hashlib.sha256(files[name].read_bytes()).hexdigest(), digest_of(prompt)]
        print(name, flush=True)
    versions = {package: version(package) for package in ("comfyui-frontend-package", *PACKAGES)}
    to.write_text(json.dumps({"versions": versions, "files": digests}, indent=1) + "\n", encoding="utf-8")


def _main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("object_info", type=Path, help="what a server answers at /object_info; may be .gz")
    parser.add_argument("paths", type=Path, nargs="*")
    parser.add_argument("--digests", action="store_true", help="digests of the packages' files")
    parser.add_argument("--to", type=Path, required=True)
    arguments = parser.parse_args()
    if needed := missing():
        raise SystemExit(f"The frontend cannot be asked here: it needs {needed}.")
    object_info = read_json(arguments.object_info)
    if arguments.digests:
        asyncio.run(_write_digests(object_info, arguments.to))
    else:
        asyncio.run(_write_prompts(object_info, arguments.paths, arguments.to))


if __name__ == "__main__":
    _main()
