"""ComfyUI's own frontend in a headless browser, on our server and our nodes."""

import asyncio
import json
from pathlib import Path

import frontend
import pytest
from serving import Server

HELLO = Path(__file__).parents[2] / "workflows" / "hello.json"
SECONDS = 180
READY = """() => window.LiteGraph && Object.keys(window.LiteGraph.registered_node_types).length > 100
    && (window.app ?? window.comfyAPI.app.app).canvas"""
QUEUE = """async (canvas) => {
    const app = window.app ?? window.comfyAPI.app.app;
    window.heard = [];
    await app.loadGraphData(canvas, true, false);
    for (const kind of ['progress', 'executed', 'execution_success', 'execution_error',
                        'execution_interrupted', 'b_preview', 'b_preview_with_metadata']) {
        const detail = (event) => (kind[1] == '_' ? null : event.detail);
        app.api.addEventListener(kind, (event) => window.heard.push([kind, detail(event)]));
    }
    await app.queuePrompt(0, 1);
}"""
HEARD = "(kind) => window.heard.some(([heard]) => heard == kind)"
# What a frontend on an empty server asks for in vain, and does without.
TOLERATED = ("/user.css", "/userdata", "/templates/")


def with_steps(steps, seed):
    canvas = json.loads(HELLO.read_text())
    (sampler,) = (node for node in canvas["nodes"] if node["type"] == "KSampler")
    sampler["widgets_values"][:3] = [seed, "fixed", steps]
    return canvas


@pytest.mark.slow
@pytest.mark.skipif(bool(frontend.missing()), reason=f"the canvas needs {frontend.missing()}")
def test_queueing_previews_interrupt_and_history_on_the_canvas(tmp_path):
    server = Server(tmp_path, host="").start().wait_until_ready()

    async def work():
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(
                executable_path=frontend.browser(), args=["--no-sandbox", "--disable-gpu"]
            )
            page = await browser.new_page()
            failed, errors = [], []
            page.on("response", lambda answer: answer.status >= 400 and failed.append(answer.url))
            page.on("pageerror", lambda error: errors.append(str(error)))

            async def until(kind):
                await page.wait_for_function(HEARD, arg=kind, timeout=SECONDS * 1000)

            await page.goto(server.url)
            await page.wait_for_function(READY, timeout=SECONDS * 1000)
            await page.evaluate(QUEUE, with_steps(4, 1))
            await until("execution_success")
            heard = await page.evaluate("window.heard")
            kinds = [kind for kind, _ in heard]
            assert kinds.count("progress") == 4
            assert kinds.count("b_preview_with_metadata") == 4
            (shown,) = (data for kind, data in heard if kind == "executed")
            assert shown["output"]["images"] == [
                {"filename": "hello_00001_.png", "subfolder": "", "type": "output"}
            ]
            await page.evaluate(QUEUE, with_steps(5000, 2))
            await until("progress")
            await page.evaluate("(window.app ?? window.comfyAPI.app.app).api.interrupt(null)")
            await until("execution_interrupted")
            await page.reload()
            await page.wait_for_function(READY, timeout=SECONDS * 1000)
            jobs = await page.evaluate("fetch('/api/jobs').then((answer) => answer.json())")
            assert [job["status"] for job in jobs["jobs"]] == ["cancelled", "completed"]
            await browser.close()
            assert errors == []
            assert [url for url in failed if not any(part in url for part in TOLERATED)] == []

    try:
        asyncio.run(work())
    finally:
        server.stop()
    assert (tmp_path / "output" / "hello_00001_.png").is_file()
