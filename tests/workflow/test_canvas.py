"""What the frontend cannot be asked about: warnings, places, nodes of other people's extensions, size."""

import random
import time

import pytest
from canvases import SMALL, SUBGRAPH, canvas, node, subgraph
from slipstream.executor.workflow import files
from slipstream.executor.workflow.canvas import convert
from slipstream.executor.workflow.draft import Draft

DEFINITIONS = {"subgraphs": [subgraph()]}


def host(node_id, link, values=None, **more):
    inputs = [("model", "MODEL", link), ("cfg", "FLOAT", None)]
    return node(node_id, SUBGRAPH, inputs=inputs, values=values, **more)


def test_values_by_name_and_list_values():
    prompt = convert(canvas([node(1, "Use", values={"text": [1, 2], "seed": 3})], []), SMALL).prompt
    assert prompt["1"]["inputs"] == {"seed": 3, "text": {"__value__": [1, 2]}}


def test_a_class_without_definition_is_converted_by_what_the_file_tells():
    slots = [
        {"name": "model", "type": "MODEL", "link": 1},
        {"name": "seed", "type": "INT", "link": None, "widget": {"name": "seed"}},
        {"name": "text", "type": "STRING", "link": None, "widget": {"name": "text"}},
    ]
    nodes = [
        node(1, "Load", values=["b"]),
        {**node(2, "Mystery", values=[7, "randomize", "hello"]), "title": "What", "inputs": slots},
        {**node(3, "Mystery"), "inputs": slots[1:], "widgets_values_named": {"text": "named", "seed": 4}},
    ]
    conversion = convert(canvas(nodes, [[1, 1, 0, 2, 0, "MODEL"]]), SMALL)
    assert conversion.prompt["2"]["inputs"] == {"seed": 7, "text": "hello", "model": ["1", 0]}
    assert conversion.prompt["2"]["class_type"] == "Mystery"
    assert conversion.prompt["3"]["inputs"] == {"text": "named", "seed": 4}
    assert conversion.warnings == [
        'node 2 "What" (Mystery) has no definition here: converted by what the file tells',
        "node 3 (Mystery) has no definition here: converted by what the file tells",
    ]


def test_set_and_get_nodes_are_followed_by_name():
    nodes = [
        node(1, "Load", values=["b"]),
        node(2, "SetNode", inputs=[("MODEL", "MODEL", 1)], values=["m"]),
        node(3, "GetNode", values=["m"]),
        node(4, "Use", inputs=[("model", "MODEL", 2)], values=[1, "fixed", "x"]),
        node(5, "GetNode", values=["nobody set this"]),
        node(6, "Use", inputs=[("model", "MODEL", 3)], values=[1, "fixed", "x"]),
    ]
    links = [[1, 1, 0, 2, 0, "MODEL"], [2, 3, 0, 4, 0, "MODEL"], [3, 5, 0, 6, 0, "MODEL"]]
    conversion = convert(canvas(nodes, links), SMALL)
    assert set(conversion.prompt) == {"1", "4", "6"}
    assert conversion.prompt["4"]["inputs"]["model"] == ["1", 0]
    assert "model" not in conversion.prompt["6"]["inputs"]
    assert conversion.warnings == []


def test_notes_and_labels_of_extensions_disappear():
    nodes = [node(1, "Label (rgthree)"), node(2, "MarkdownNote", values=["text"])]
    assert convert(canvas(nodes, []), SMALL).prompt == {}


def test_an_input_led_straight_through_a_subgraph():
    through = subgraph()
    through["outputs"][0]["linkIds"] = [4]
    through["links"].append({"id": 4, "origin_id": -10, "origin_slot": 0, "target_id": -20, "target_slot": 0})
    nodes = [
        node(1, "Load", values=["a"]),
        host(2, 1),
        node(3, "Use", inputs=[("model", "MODEL", 2)]),
    ]
    links = [[1, 1, 0, 2, 0, "MODEL"], [2, 2, 0, 3, 0, "MODEL"]]
    prompt = convert(canvas(nodes, links, definitions={"subgraphs": [through]}), SMALL).prompt
    assert prompt["3"]["inputs"]["model"] == ["1", 0]


def test_the_values_of_instances_have_places_and_shared_ones_have_none():
    links = [[1, 1, 0, 2, 0, "MODEL"], [2, 1, 0, 3, 0, "MODEL"]]
    nodes = [node(1, "Load", values=["a"]), host(2, 1, [3.5]), host(3, 2)]
    file = canvas(nodes, links, definitions=DEFINITIONS)
    conversion = convert(file, SMALL)
    assert [conversion.prompt[key]["inputs"]["cfg"] for key in ("2:11", "3:11")] == [3.5, 8.0]
    assert ("3:11", "cfg") not in conversion.places
    draft = Draft(files.parse(file), SMALL)
    draft.assign("2:11.cfg", "6.5")
    kept = {entry["id"]: entry for entry in draft.extra_data["extra_pnginfo"]["workflow"]["nodes"]}
    assert (kept[2]["widgets_values"], draft.prompt["2:11"]["inputs"]["cfg"]) == ([6.5], 6.5)
    draft.assign("3:11.cfg", "1.5")
    assert draft.extra_data == {}


def test_dynamic_prompts_are_drawn_inside_subgraphs_too():
    dynamic = {"input": {"required": {"text": ["STRING", {"dynamicPrompts": True}]}}, "output": ["MODEL"]}
    definition = {"id": SUBGRAPH, "nodes": [node(11, "Say", values=["{a|b|c} star"])], "links": []}
    file = canvas([node(2, SUBGRAPH)], [], definitions={"subgraphs": [definition]})
    drawn = {
        convert(file, {"Say": dynamic}, random.Random(seed)).prompt["2:11"]["inputs"]["text"]
        for seed in range(30)
    }
    assert drawn == {"a star", "b star", "c star"}


def chain(count, kind, mode=0):
    """`count` nodes that hand a model on, in a row, with a user at every hundredth."""
    slot = "model" if kind == "Patch" else ""
    nodes = [node(0, "Load", values=["a"])]
    nodes += [node(i, kind, inputs=[(slot, "MODEL", i)], mode=mode) for i in range(1, count + 1)]
    links = [[i, i - 1, 0, i, 0, "MODEL"] for i in range(1, count + 1)]
    for i in range(100, count + 1, 100):
        nodes.append(node(-i, "Use", inputs=[("model", "MODEL", -i)]))
        links.append([-i, i, 0, -i, 0, "MODEL"])
    return canvas(nodes, links)


@pytest.mark.parametrize(("kind", "mode"), [("Reroute", 0), ("Patch", 4)])
def test_long_chains(kind, mode):
    started = time.process_time()
    prompt = convert(chain(20_000, kind, mode), SMALL).prompt
    assert time.process_time() - started < 20
    assert len(prompt) == 201
    assert all(prompt[f"-{i}"]["inputs"]["model"] == ["0", 0] for i in range(100, 20_001, 100))


def nested(depth):
    """Subgraphs, each holding an instance of the next."""
    kinds = [f"00000000-0000-4000-8000-{level:012d}" for level in range(depth)]
    inner = [*kinds[1:], "Patch"]
    definitions = [subgraph(kind, inner=holds) for kind, holds in zip(kinds, inner, strict=True)]
    nodes = [node(1, "Load", values=["a"]), {**host(2, 1), "type": kinds[0]}]
    use = node(3, "Use", inputs=[("model", "MODEL", 2)])
    links = [[1, 1, 0, 2, 0, "MODEL"], [2, 2, 0, 3, 0, "MODEL"]]
    return canvas([*nodes, use], links, definitions={"subgraphs": definitions})


def test_deep_nesting():
    prompt = convert(nested(300), SMALL).prompt
    innermost = next(key for key, entry in prompt.items() if entry["class_type"] == "Patch")
    assert innermost.count(":") == 300
    assert prompt[innermost]["inputs"] == {"cfg": 8.0, "model": ["1", 0]}
    assert prompt["3"]["inputs"]["model"] == [innermost, 0]
