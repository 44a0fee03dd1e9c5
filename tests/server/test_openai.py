"""OpenAI's images API, asked by OpenAI's own client."""

import base64
import io
import json
import urllib.request

import pytest
from PIL import Image
from serving import Server

openai = pytest.importorskip("openai", reason="the official client: pip install openai")

PARAMETERS = {
    "prompt": {"node": "1", "input": "prompt"},
    "seed": {"node": "1", "input": "seed"},
    "width": {"node": "1", "input": "width"},
    "height": {"node": "1", "input": "height"},
    "steps": {"node": "1", "input": "steps"},
}
DRAW = {"prompt": "", "seed": 1, "width": 8, "height": 8, "steps": 4}


def flow(kind, inputs, parameters):
    prompt = {"1": {"class_type": kind, "inputs": inputs}}
    return json.dumps({"prompt": prompt, "extra": {"slipstream": {"parameters": parameters}}})


@pytest.fixture(scope="module")
def client(server_of_workflows):
    return openai.OpenAI(base_url=f"{server_of_workflows.url}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def server_of_workflows(tmp_path_factory):
    folder = tmp_path_factory.mktemp("openai")
    (folder / "flows").mkdir()
    (folder / "flows" / "draw.json").write_text(flow("Draw", DRAW, PARAMETERS))
    image = {"image": {"node": "1", "input": "image"}, "prompt": {"node": "1", "input": "prompt"}}
    (folder / "flows" / "change.json").write_text(flow("Change", {"image": "x", "prompt": ""}, image))
    prompt = {"prompt": {"node": "1", "input": "prompt"}}
    (folder / "flows" / "fails.json").write_text(flow("Change", {"image": "none.png", "prompt": ""}, prompt))
    (folder / "flows" / "no_model.json").write_text("{}")
    server = Server(folder, "--workflows", "flows").start().wait_until_ready()
    yield server
    server.stop()


def text_of(b64):
    """What the nodes write into their pictures: the inputs that they were called with."""
    return json.loads(Image.open(io.BytesIO(base64.b64decode(b64))).text["inputs"])


def test_models_are_workflow_files(client):
    assert [model.id for model in client.models.list()] == ["change", "draw", "fails"]
    assert client.models.retrieve("draw").owned_by == "slipstream"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("none")


def test_generate(client):
    answer = client.images.generate(
        model="draw",
        prompt="a star",
        n=2,
        size="24x16",
        response_format="b64_json",
        quality="auto",
        extra_body={"seed": 40, "num_inference_steps": 3},
    )
    made = [text_of(one.b64_json) for one in answer.data]
    assert sorted(one["seed"] for one in made) == [40, 41]
    assert all(
        {**one, "seed": 0} == {"prompt": "a star", "seed": 0, "width": 24, "height": 16, "steps": 3}
        for one in made
    )


def test_generate_as_url(client):
    answer = client.images.generate(model="draw", prompt="a star", response_format="url")
    with urllib.request.urlopen(answer.data[0].url) as file:
        assert text_of(base64.b64encode(file.read()))["prompt"] == "a star"


def test_stream_of_partial_images(client):
    stream = client.images.generate(
        model="draw", prompt="a star", stream=True, partial_images=3, extra_body={"steps": 8, "seed": 5}
    )
    events = list(stream)
    assert [event.type for event in events] == ["image_generation.partial_image"] * 3 + [
        "image_generation.completed"
    ]
    assert [event.partial_image_index for event in events[:3]] == [0, 1, 2]
    assert base64.b64decode(events[0].b64_json)[:2] == b"\xff\xd8"
    assert text_of(events[-1].b64_json)["seed"] == 5


def test_edit(client, tmp_path):
    Image.new("RGB", (5, 7), "red").save(tmp_path / "mine.png")
    with (tmp_path / "mine.png").open("rb") as file:
        answer = client.images.edit(model="change", image=file, prompt="bluer")
    assert text_of(answer.data[0].b64_json) == {"size": [5, 7], "prompt": "bluer"}


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        ({"model": "none"}, openai.NotFoundError, "there is no model 'none'; there is change, draw, fails"),
        ({"prompt": " "}, openai.BadRequestError, "a prompt is needed"),
        ({"size": "huge"}, openai.BadRequestError, "size must be WIDTHxHEIGHT"),
        ({"n": 11}, openai.BadRequestError, "n must be 1 to 10"),
        ({"n": 2, "stream": True}, openai.BadRequestError, "n must be 1"),
        ({"stream": True, "partial_images": 4}, openai.BadRequestError, "partial_images must be 0 to 3"),
        ({"extra_body": {"magic": 1}}, openai.BadRequestError, "no parameter 'magic'"),
        ({"extra_body": {"steps": "many"}}, openai.BadRequestError, "steps takes a whole number"),
        ({"extra_body": {"steps": 0}}, openai.BadRequestError, "Value 0 smaller than min of 1 (steps)"),
        ({"model": "fails"}, openai.InternalServerError, "none.png"),
    ],
)
def test_refusals(client, options, kind, message):
    with pytest.raises(kind) as error:
        client.images.generate(**{"model": "draw", "prompt": "x", **options})
    assert message in str(error.value)
