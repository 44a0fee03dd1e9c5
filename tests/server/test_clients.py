"""Programs that other people wrote for ComfyUI's server, unchanged."""

import asyncio
import json

import pytest
from PIL import Image
from serving import connected


@pytest.fixture
def workflow(server, tmp_path):
    """A prompt file that makes a picture from an input file."""
    (server.folder / "input").mkdir(exist_ok=True)
    Image.new("RGB", (6, 4), "red").save(server.folder / "input" / "start.png")
    inputs = {"image": "start.png", "prompt": "a star"}
    prompt = {"9": {"class_type": "Change", "inputs": inputs, "_meta": {"title": "Save Image"}}}
    path = tmp_path / "flow.json"
    path.write_text(json.dumps(prompt))
    return path


def written(tmp_path, content):
    (tmp_path / "got.png").write_bytes(content)
    return json.loads(Image.open(tmp_path / "got.png").text["inputs"])


def test_comfy_api_simplified(server, workflow, tmp_path):
    module = pytest.importorskip("comfy_api_simplified")
    api = module.ComfyApiWrapper(server.url)
    flow = module.ComfyWorkflowWrapper(str(workflow))
    uploaded = api.upload_image(str(server.folder / "input" / "start.png"))
    assert uploaded["name"] == "start.png"
    flow.set_node_param("Save Image", "prompt", "by simplified")
    (content,) = api.queue_and_wait_images(flow, "Save Image").values()
    assert written(tmp_path, content) == {"size": [6, 4], "prompt": "by simplified"}
    assert api.get_queue() == {"queue_running": [], "queue_pending": []}
    assert set(api.get_object_info("Change")) == {"Change"}
    assert api.get_system_stats()["devices"]
    assert api.get_embeddings() == []
    api.interrupt()


def test_comfyui_xy(server, workflow, tmp_path):
    client = pytest.importorskip("comfyui_xy.client").ComfyUiClient(server.url)
    prompt = json.loads(workflow.read_text())
    prompt["9"]["inputs"]["prompt"] = "by xy"
    outputs = client.wait_for_execution(client.queue_prompt(prompt), check_interval=0.05, timeout=30)
    (found,) = client.extract_file_responses(outputs)
    found.save(str(tmp_path / "xy.png"))
    assert json.loads(Image.open(tmp_path / "xy.png").text["inputs"])["prompt"] == "by xy"
    assert client.get_queue()["queue_pending"] == []


def test_comfy_toolkit(server, workflow, tmp_path):
    client = pytest.importorskip("comfy_toolkit.client").ComfyClient(server.url)
    assert client.is_online()
    prompt = json.loads(workflow.read_text())
    prompt["9"]["inputs"]["prompt"] = "by toolkit"
    prompt_id = client.submit(prompt)
    prompt_id = prompt_id if isinstance(prompt_id, str) else prompt_id["prompt_id"]
    (picture,) = client.wait_for_images(prompt_id, poll_interval=0.05, max_wait=30)
    assert written(tmp_path, client.download(picture))["prompt"] == "by toolkit"
    assert set(client.queue_status().values()) <= {0}


def test_comfyapi(server, workflow, tmp_path):
    manager = pytest.importorskip("comfyapi").ComfyAPIManager()
    manager.set_base_url(server.url)
    manager.load_workflow(str(workflow))
    manager.edit_workflow(["9", "inputs", "prompt"], "by comfyapi")
    prompt_id = manager.submit_workflow()

    async def ended():
        async with connected(server.url) as client:
            await client.ended(prompt_id)

    asyncio.run(ended())
    assert manager.check_queue(prompt_id)
    url, name = manager.find_output(prompt_id, with_filename=True)
    manager.download_output(url, save_path=str(tmp_path), filename=name)
    assert json.loads(Image.open(tmp_path / name).text["inputs"])["prompt"] == "by comfyapi"
