"""Damaged canvas files: one clear error, or what the frontend makes of them; never a traceback."""

import copy

import canvases
import pytest
from canvases import SMALL, SUBGRAPH, canvas, node, subgraph
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slipstream.executor.workflow.canvas import convert
from slipstream.executor.workflow.errors import WorkflowError

USE = node(3, "Use", inputs=[("model", "MODEL", 1)], title="Mine")


def refused(file):
    with pytest.raises(WorkflowError) as error:
        convert(file, SMALL)
    return str(error.value)


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([{"type": "Load"}], "a node in the file: Object missing required field `id`"),
        ([{"id": 1}], "node 1"),
        (["text"], "Expected `object`, got `str`"),
        ([node(1, "Load", title="Twice"), node(1, "Load")], "the file has two nodes with the id 1"),
        ([{**USE, "mode": "loud"}], 'node 3 "Mine" (Use) in the file: Expected `int | null`'),
        ([{**USE, "inputs": [{"name": "model", "link": [1]}]}], 'node 3 "Mine" (Use)'),
    ],
)
def test_a_damaged_node_is_named(nodes, message):
    text = refused(canvas(nodes, []))
    assert text.startswith("not a canvas file: ")
    assert message in text


@pytest.mark.parametrize(
    "content", [{"nodes": 3}, {"nodes": [], "links": 5}, {"nodes": [], "links": [[1, 2]]}]
)
def test_a_damaged_file(content):
    assert refused(content).startswith("not a canvas file: ")


def test_a_link_from_nowhere():
    assert (
        refused(canvas([USE], [[1, 9, 0, 3, 0, "MODEL"]]))
        == "a link comes from node 9, which is not in the file"
    )


def test_a_link_from_an_output_that_a_bypassed_node_lacks():
    text = refused(canvas([node(2, "Patch", mode=4), USE], [[1, 2, 5, 3, 0, "MODEL"]]))
    assert text == "a link comes from output 5 of node 2 (Patch), which it lacks"


@pytest.mark.parametrize(("kind", "mode"), [("Reroute", 0), ("Patch", 4)])
def test_a_circle(kind, mode):
    slot = "" if kind == "Reroute" else "model"
    nodes = [
        node(1, kind, inputs=[(slot, "MODEL", 2)], mode=mode),
        node(2, kind, inputs=[(slot, "MODEL", 3)], mode=mode),
        USE,
    ]
    links = [[1, 1, 0, 3, 0, "MODEL"], [2, 2, 0, 1, 0, "MODEL"], [3, 1, 0, 2, 0, "MODEL"]]
    assert (
        refused(canvas(nodes, links)) == 'the input model of node 3 "Mine" (Use) comes from a circle of links'
    )


def test_a_subgraph_that_contains_itself():
    definitions = {"subgraphs": [subgraph(inner=SUBGRAPH, name="Loop")]}
    assert refused(canvas([node(1, SUBGRAPH)], [], definitions=definitions)) == (
        'the subgraph "Loop" contains itself'
    )


@pytest.mark.parametrize("kind", [SUBGRAPH, "workflow>Pair"])
def test_a_subgraph_or_group_that_the_file_lacks(kind):
    assert refused(canvas([node(5, kind, title="T")], [])) == (
        f'the file lacks the nodes that node 5 "T" ({kind}) stands for'
    )


def test_a_group_of_unknown_nodes():
    groups = {"Pair": {"nodes": [{"type": "Nobody"}], "links": []}}
    assert refused(canvas([node(5, "workflow>Pair")], [], extra={"groupNodes": groups})) == (
        "cannot be converted: node types that are not known here: Nobody (node 5)"
    )


def test_an_extension_that_cannot_be_replayed():
    assert "node 5 (Anything Everywhere)" in refused(canvas([node(5, "Anything Everywhere")], []))
    assert convert(canvas([node(5, "Anything Everywhere", mode=2)], []), SMALL).prompt == {}


def test_subgraphs_that_multiply():
    """Thirty levels of two instances each would be a thousand million nodes."""
    kinds = [f"00000000-0000-4000-8000-{level:012d}" for level in range(30)]
    definitions = [
        {"id": kind, "nodes": [node(1, inner), node(2, inner)], "links": []}
        for kind, inner in zip(kinds, [*kinds[1:], "Load"], strict=True)
    ]
    file = canvas([node(1, kinds[0])], [], definitions={"subgraphs": definitions})
    assert "nodes when taken apart" in refused(file)


def test_subgraphs_nested_too_deep():
    kinds = [f"00000000-0000-4000-8000-{level:012d}" for level in range(1100)]
    definitions = [
        subgraph(kind, inner=inner) for kind, inner in zip(kinds, [*kinds[1:], "Patch"], strict=True)
    ]
    file = canvas([node(1, kinds[0])], [], definitions={"subgraphs": definitions})
    assert "nested more than 1000 deep" in refused(file)


PAIRS = [pair["canvas"] for pair in canvases.pairs().values() if len(str(pair["canvas"])) < 60_000]
FILES = [*PAIRS[::3], *(case["canvas"] for case in canvases.cases()[0].values())]
SCHEMA = {**canvases.object_info(), **canvases.cases()[1]}
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 30),
    st.floats(),
    st.text(max_size=5),
    st.sampled_from(["Reroute", "PrimitiveNode", "KSampler", "workflow>Pair", "-10", "*", 2**70, 1e400]),
    st.lists(st.integers(-2, 5), max_size=6),
    st.just({}),
    st.just([[]]),
    st.just([None]),
    st.just({"name": None}),
)


def paths(content):
    """Every place in a file, as (container, key)."""
    found, waiting = [], [content]
    while waiting:
        held = waiting.pop()
        entries = held.items() if isinstance(held, dict) else enumerate(held)
        for key, value in entries:
            if key not in ("pos", "size", "bounding", "flags", "ds", "models"):
                found.append((held, key))
                if isinstance(value, (dict, list)):
                    waiting.append(value)
    return found


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_mutations_of_real_files_raise_nothing_else(data):
    file = copy.deepcopy(data.draw(st.sampled_from(FILES)))
    for _ in range(data.draw(st.integers(1, 6))):
        places = paths(file)
        if not places:
            break
        held, key = places[data.draw(st.integers(0, len(places) - 1))]
        action = data.draw(st.sampled_from(["replace", "delete", "swap", "double"]))
        if action == "replace":
            held[key] = copy.deepcopy(data.draw(VALUES))
        elif action == "delete":
            del held[key]
        elif action == "swap":
            other, at = places[data.draw(st.integers(0, len(places) - 1))]
            held[key] = copy.deepcopy(other[at])
        elif isinstance(held, list):
            held.append(copy.deepcopy(held[key]))
    try:
        conversion = convert(file, SCHEMA)
    except WorkflowError as error:
        assert "\n" not in str(error)
        return
    for entry in conversion.prompt.values():
        for value in entry["inputs"].values():
            assert not isinstance(value, list) or value[0] in conversion.prompt
