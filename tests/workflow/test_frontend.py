"""Canvas files against the prompts that ComfyUI's own frontend makes of them.

`pairs.jsonl.gz` holds saved files of many ages, `cases.json` small ones for single rules, and `digests.json`
digests for the files of two packages (`frontend.py` says how to make them anew). One test asks the frontend
itself.
"""

import asyncio
import hashlib
import json

import canvases
import frontend
import pytest
from slipstream.executor.workflow.canvas import convert

SCHEMA = canvases.object_info()
PAIRS = canvases.pairs()
CASES, CLASSES = canvases.cases()
DIGESTS = json.loads((canvases.DATA / "digests.json").read_text())
PACKAGED = {file.name: file for file in frontend.packaged()}
needs_packages = pytest.mark.skipif(
    not PACKAGED, reason=f"needs canvas files: pip install {' '.join(frontend.PACKAGES)}"
)


def content(prompt, *parts):
    """As JSON, to tell true from 1; without the titles, which the frontend translates for many classes."""
    said = {key: [frontend.javascript(node[part]) for part in parts] for key, node in prompt.items()}
    return json.dumps(said, sort_keys=True)


@pytest.mark.parametrize("name", PAIRS)
def test_pair(name):
    conversion = convert(PAIRS[name]["canvas"], SCHEMA)
    assert content(conversion.prompt, "class_type", "inputs") == content(
        PAIRS[name]["prompt"], "class_type", "inputs"
    )
    assert frontend.digest_of(conversion.prompt) == frontend.digest_of(PAIRS[name]["prompt"])
    assert conversion.warnings == []


def test_titles_that_the_file_gives():
    compared = 0
    for pair in PAIRS.values():
        titled = {str(node["id"]) for node in pair["canvas"]["nodes"] if node.get("title")}
        ours = convert(pair["canvas"], SCHEMA).prompt
        for key in titled & set(pair["prompt"]):
            assert ours[key]["_meta"]["title"] == pair["prompt"][key]["_meta"]["title"]
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("name", CASES)
def test_case(name):
    prompt = convert(CASES[name]["canvas"], {**SCHEMA, **CLASSES}).prompt
    assert content(prompt, "class_type", "inputs") == content(CASES[name]["prompt"], "class_type", "inputs")


@needs_packages
def test_every_file_of_the_packages_converts():
    for file in PACKAGED.values():
        conversion = convert(frontend.read_json(file), SCHEMA)
        assert conversion.prompt, file.name


@needs_packages
def test_files_whose_node_types_are_all_known():
    """Files that a newer package has changed are left out; make the digests anew for them."""
    different, compared = [], 0
    for name, (of_canvas, of_prompt) in DIGESTS["files"].items():
        file = PACKAGED.get(name)
        if file is not None and hashlib.sha256(file.read_bytes()).hexdigest() == of_canvas:
            compared += 1
            if frontend.digest_of(convert(frontend.read_json(file), SCHEMA).prompt) != of_prompt:
                different.append(name)
    assert different == []
    assert compared > len(DIGESTS["files"]) / 2, "make the digests anew: see frontend.py"


@pytest.mark.slow
@pytest.mark.skipif(bool(frontend.missing()), reason=f"asking the frontend needs {frontend.missing()}")
def test_the_frontend_itself():
    async def ask():
        chosen = [(name, case["canvas"]) for name, case in CASES.items()]
        return [answer async for answer in frontend.convert_all({**SCHEMA, **CLASSES}, chosen)]

    for name, prompt, error in asyncio.run(ask()):
        assert error == "", name
        assert content(prompt, "class_type", "inputs") == content(
            convert(CASES[name]["canvas"], {**SCHEMA, **CLASSES}).prompt, "class_type", "inputs"
        ), name
