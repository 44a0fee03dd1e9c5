"""What a node's function is called with, and what becomes of what it returns."""

import pytest
from slipstream.executor.blocker import ExecutionBlocker
from slipstream.executor.graph import GraphBuilder, events


def make_list(**values):
    return (list(values.values()),)


@pytest.fixture
def classes(make_class, any_type):
    slots = {f"value{i}?": (any_type,) for i in range(1, 6)}
    return {
        "List": make_class(make_list, slots, OUTPUT_IS_LIST=(True,)),
        "Empty": make_class(lambda: ([],), {}, OUTPUT_IS_LIST=(True,)),
        "Add": make_class(lambda a, b: (a + b,), {"a": ("INT",), "b": ("INT",)}, ("INT",)),
        "Sum": make_class(lambda a, b: (sum(a) * b[0],), {"a": ("INT",), "b": ("INT",)}, INPUT_IS_LIST=True),
    }


def test_one_call_per_element_of_the_longest_list(runner, classes):
    graph = GraphBuilder()
    a = graph.node("List", value1=1, value2=2, value3=3)
    b = graph.node("List", value1=10, value2=20)
    added = graph.node("Add", a=a.out(0), b=b.out(0))
    graph.node("Show", value=added.out(0))
    # The shorter list repeats its last element.
    assert runner(classes).shown(graph) == [11, 22, 23]


def test_list_inputs_are_given_whole(runner, classes):
    graph = GraphBuilder()
    a = graph.node("List", value1=1, value2=2, value3=3)
    graph.node("Show", value=graph.node("Sum", a=a.out(0), b=2).out(0))
    assert runner(classes).shown(graph) == [12]


def test_outputs_without_the_list_mark_are_wrapped(runner, classes, make_class):
    pair = make_class(lambda: ([1, 2], [3, 4]), {}, ("A", "B"), OUTPUT_IS_LIST=(True, False))
    run = runner({**classes, "Pair": pair})
    for slot, expected in ((0, [1, 2]), (1, [[3, 4]])):
        graph = GraphBuilder()
        graph.node("Show", value=graph.node("Pair").out(slot))
        assert run.shown(graph) == expected


def test_list_outputs_of_several_calls_are_joined(runner, classes, make_class):
    twice = make_class(lambda a: ([a, a],), {"a": ("INT",)}, OUTPUT_IS_LIST=(True,))
    graph = GraphBuilder()
    a = graph.node("List", value1=1, value2=2)
    graph.node("Show", value=graph.node("Twice", a=a.out(0)).out(0))
    assert runner({**classes, "Twice": twice}).shown(graph) == [1, 1, 2, 2]


def test_an_empty_list_means_no_call(runner, classes):
    # ComfyUI raises IndexError where another input has elements.
    run = runner(classes)
    graph = GraphBuilder()
    added = graph.node("Add", a=graph.node("Empty").out(0), b=1)
    shown = graph.node("Show", value=added.out(0))
    whole = graph.node("Show", value=graph.node("Sum", a=graph.node("Empty").out(0), b=1).out(0))
    result = run(graph)
    assert result.status == "success"
    assert result.outputs == {whole.id: {"value": [0]}}
    assert shown.id in result.executed


def test_a_node_without_inputs_is_called_once(runner, make_class):
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Four").out(0))
    assert runner({"Four": make_class(lambda: (4,), {})}).shown(graph) == [4]


def test_what_calls_show_is_joined(runner, classes, make_class):
    show = make_class(lambda a: {"ui": {"a": [a], "b": (a, a)}}, {"a": ("INT",)}, (), OUTPUT_NODE=True)
    graph = GraphBuilder()
    node = graph.node("Both", a=graph.node("List", value1=1, value2=2).out(0))
    assert runner({**classes, "Both": show})(graph).outputs == {node.id: {"a": [1, 2], "b": [1, 1, 2, 2]}}


def test_showing_and_returning(runner, make_class):
    both = make_class(lambda: {"ui": {"text": ["hi"]}, "result": (5,)}, {}, ("INT",), OUTPUT_NODE=True)
    graph = GraphBuilder()
    node = graph.node("Both")
    shown = graph.node("Show", value=node.out(0))
    assert runner({"Both": both})(graph).outputs == {
        node.id: {"text": ["hi"]},
        shown.id: {"value": [5]},
    }


def test_an_output_that_was_not_returned_arrives_as_none(runner, make_class):
    quiet = make_class(lambda: {"ui": {"text": ["hi"]}}, {}, ("INT",))
    graph = GraphBuilder()
    graph.node("Show", "show", value=graph.node("Quiet").out(0))
    assert runner({"Quiet": quiet})(graph).outputs["show"] == {"value": [None]}


def test_returning_nothing(runner, make_class):
    nothing = make_class(lambda: None, {}, (), OUTPUT_NODE=True)
    forgot = make_class(lambda: None, {}, ("INT",), OUTPUT_NODE=True)
    run = runner({"Nothing": nothing, "Forgot": forgot})
    graph = GraphBuilder()
    graph.node("Nothing")
    assert run(graph).status == "success"
    graph = GraphBuilder()
    graph.node("Forgot")
    assert run(graph).error.exception_message == "run returned None instead of 1 outputs\n"


def test_hidden_inputs(runner, make_class):
    seen = {}
    hidden = {
        "prompt!": "PROMPT",
        "graph!": "DYNPROMPT",
        "info!": "EXTRA_PNGINFO",
        "me!": "UNIQUE_ID",
        "token!": "AUTH_TOKEN_COMFY_ORG",
        "key!": "API_KEY_COMFY_ORG",
        "other!": "SOMETHING_ELSE",
    }
    run = runner({"Look": make_class(lambda **given: seen.update(given) or (), hidden, (), OUTPUT_NODE=True)})
    prompt = {"5": {"class_type": "Look", "inputs": {}, "_meta": {"title": "x"}}}
    extra = {"extra_pnginfo": {"workflow": 1}, "auth_token_comfy_org": "t", "api_key_comfy_org": "k"}
    run(prompt, extra_data=extra)
    graph = seen.pop("graph")
    assert seen == {"prompt": prompt, "info": {"workflow": 1}, "me": "5", "token": "t", "key": "k"}
    assert graph.get_node("5") == prompt["5"] and graph.has_node("5") and not graph.has_node("6")
    assert graph.get_original_prompt() is prompt and graph.all_node_ids() == {"5"}
    assert (graph.get_parent_node_id("5"), graph.get_real_node_id("5")) == (None, "5")
    assert graph.get_display_node_id("5") == "5"


def test_running_does_not_write_into_the_prompt(runner, make_class):
    # ComfyUI leaves "is_changed" in the prompt, from where it gets into the metadata of saved files.
    changing = make_class(lambda: (), {}, (), OUTPUT_NODE=True, IS_CHANGED=classmethod(lambda cls: 1))
    prompt = {"1": {"class_type": "Node", "inputs": {}}}
    runner({"Node": changing})(prompt)
    assert prompt == {"1": {"class_type": "Node", "inputs": {}}}


def test_a_value_for_an_input_that_is_only_hidden(runner, make_class):
    show = make_class(lambda x: {"ui": {"x": [x]}}, {"x!": ("*",)}, (), OUTPUT_NODE=True)
    prompt = {"1": {"class_type": "Node", "inputs": {"x": 5}}}
    assert runner({"Node": show})(prompt).outputs == {"1": {"x": [5]}}


def test_raw_links_are_given_as_they_are(runner, make_class):
    raw = make_class(lambda x: ((x, "raw"),), {"x": ("*", {"rawLink": True})})
    run = runner({"Raw": raw})
    graph = GraphBuilder()
    value = graph.node("Value", value=1)
    graph.node("Show", value=graph.node("Raw", x=value.out(0)).out(0))
    assert run.shown(graph) == [([value.id, 0], "raw")]
    assert value.id in run.started()  # the node at the other end runs all the same


def test_undeclared_constants_are_not_passed(runner, make_class):
    count = make_class(lambda **given: (sorted(given),), {"a": ("INT",)})
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Node", a=1, b=2).out(0))
    assert runner({"Node": count}).shown(graph) == [["a"]]


def test_undeclared_links_are_followed_if_the_function_takes_them(runner, make_class):
    def strict(self, a):
        return (a,)

    takes = make_class(lambda **given: (sum(given.values()),), {"a": ("INT",)})
    refuses = make_class(None, {"a": ("INT",)}, run=strict)
    run = runner({"Takes": takes, "Refuses": refuses})
    graph = GraphBuilder()
    value = graph.node("Value", value=10)
    graph.node("Show", value=graph.node("Takes", a=1, b=value.out(0)).out(0))
    assert run.shown(graph) == [11]
    # ComfyUI passes it here too, and the call fails.
    graph = GraphBuilder()
    graph.node("Show", value=graph.node("Refuses", a=1, b=graph.node("Value", value=2).out(0)).out(0))
    assert run.shown(graph) == [1]


def test_inputs_that_an_optional_mapping_claims(runner, make_class):
    class Anything(dict):
        def __contains__(self, name):
            return True

        def __getitem__(self, name):
            return ("*", {"rawLink": name.startswith("raw")})

    node = make_class(lambda **given: (given,), {})
    node.INPUT_TYPES = classmethod(lambda cls: {"required": {}, "optional": Anything()})
    graph = GraphBuilder()
    value = graph.node("Value", value=1)
    graph.node("Show", value=graph.node("Node", a=5, b=value.out(0), raw1=value.out(0)).out(0))
    assert runner({"Node": node}).shown(graph) == [{"a": 5, "b": 1, "raw1": [value.id, 0]}]


def test_instances_are_kept_while_the_node_is_in_the_prompt(runner, make_class):
    made = []

    class Counter:
        INPUT_TYPES = classmethod(lambda cls: {"required": {"x": ("INT",)}})
        RETURN_TYPES = ()
        FUNCTION = "run"
        OUTPUT_NODE = True

        def __init__(self):
            made.append(self)

        def run(self, x):
            return ()

    run = runner({"Counter": Counter})

    def prompt(node_id, x):
        return {node_id: {"class_type": "Counter", "inputs": {"x": x}}}

    run(prompt("1", 0))
    run(prompt("1", 1))
    assert len(made) == 1
    run(prompt("2", 2))
    run(prompt("1", 3))
    assert len(made) == 3


def block_if(value, block, message):
    return (ExecutionBlocker(message) if block else value,)


@pytest.fixture
def blocking(make_class, any_type, classes):
    inputs = {"value": (any_type,), "block": ("BOOLEAN",), "message": ("STRING",)}
    return {**classes, "BlockIf": make_class(block_if, inputs, (any_type,))}


def test_a_block_stops_everything_downstream(runner, blocking):
    run = runner(blocking)
    graph = GraphBuilder()
    blocked = graph.node("BlockIf", value=1, block=True, message="no entry")
    first = graph.node("Value", value=blocked.out(0))
    graph.node("Show", value=first.out(0))
    free = graph.node("Show", value=2)
    result = run(graph)
    assert result.status == "success" and result.outputs == {free.id: {"value": [2]}}
    # The message is told at the first consumer, from where on the block is silent.
    told = [event for event in run.events if isinstance(event, events.NodeBlocked)]
    assert [(event.node, event.node_type, event.message) for event in told] == [
        (first.id, "Value", "no entry")
    ]


def test_a_block_in_a_list_blocks_its_own_call_only(runner, blocking):
    graph = GraphBuilder()
    values = graph.node("List", value1=1, value2=2, value3=3)
    flags = graph.node("List", value1=False, value2=True, value3=False)
    blocked = graph.node("BlockIf", value=values.out(0), block=flags.out(0), message="")
    again = graph.node("List", value1=blocked.out(0))
    graph.node("Show", value=again.out(0))
    assert runner(blocking).shown(graph) == [1, 3]


def test_a_block_among_list_inputs_blocks_the_call(runner, blocking):
    run = runner(blocking)
    graph = GraphBuilder()
    flags = graph.node("List", value1=False, value2=True)
    blocked = graph.node("BlockIf", value=1, block=flags.out(0), message="")
    graph.node("Show", value=graph.node("Sum", a=blocked.out(0), b=2).out(0))
    assert run(graph).outputs == {}


def test_a_bare_block_stands_for_every_output(runner, make_class):
    bare = make_class(lambda: ExecutionBlocker(None), {}, ("A", "B"))
    as_result = make_class(lambda: {"result": ExecutionBlocker(None)}, {}, ("A", "B"))
    run = runner({"Bare": bare, "AsResult": as_result})
    for name in ("Bare", "AsResult"):
        graph = GraphBuilder()
        graph.node("Show", value=graph.node(name).out(1))
        result = run(graph)
        assert result.status == "success" and result.outputs == {}
