"""The checks of one node: its inputs against its class. `validation.py` walks the prompt with them."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..blocker import ExecutionBlocker
from .calls import call_each
from .inputs import constants
from .prompt import Graph, GraphNode, is_link, unwrapped
from .schema import InputSpec, NodeSchema, Schemas, return_types

Error = dict[str, Any]

_CONVERSIONS = {"INT": int, "FLOAT": float, "STRING": str, "BOOLEAN": bool}
_LONGEST_LIST_SHOWN = 20
_LONGEST_CYCLE_SHOWN = 12


class Via(NamedTuple):
    """An input and the link it holds."""

    name: str
    spec: InputSpec
    link: list[Any]


@dataclass
class Found:
    """What checking a node's inputs gave. `links` lead to nodes that remain to be checked;
    `received` are the types at the linked inputs; `schema` is None if the node cannot be looked at."""

    errors: list[Error] = field(default_factory=list)
    links: list[Via] = field(default_factory=list)
    received: dict[str, Any] = field(default_factory=dict)
    schema: NodeSchema | None = None


class Malformed(Exception):
    """The prompt breaks its own format. `kind` and `text` are the name and message of the Python error
    that ComfyUI answers with, `reason` says what is wrong."""

    def __init__(self, kind: str, text: str, reason: str) -> None:
        super().__init__(text)
        self.kind = kind
        self.reason = reason


def check_inputs(graph: Graph, node: GraphNode, schemas: Schemas) -> Found:
    """Check every declared input of the node; literals are converted in the prompt.

    Raises Malformed for a node without inputs and for links to nodes or outputs that do not exist.
    """
    inputs = node.inputs
    if inputs is not node.raw.get("inputs"):
        raise Malformed("KeyError", "'inputs'", f"node {node} has no inputs object")
    schema = schemas[node.class_type]
    found = Found(schema=schema)
    checked_by_class = schema.facts.validate_signature
    for name, spec in schema.inputs.items():
        if name not in inputs:
            if spec.required:
                found.errors.append(
                    _error("required_input_missing", "Required input is missing", name, {"input_name": name})
                )
        elif isinstance(inputs[name], list):
            _check_link(graph, node, schemas, found, Via(name, spec, inputs[name]))
        else:
            error = _convert(inputs, name, spec)
            if error is None and not (checked_by_class and checked_by_class.takes(name)):
                error = _out_of_range(name, spec, unwrapped(inputs[name]))
            if error is not None:
                found.errors.append(error)
    return found


async def custom_errors(node: GraphNode, schema: NodeSchema, received: Mapping[str, Any]) -> list[Error]:
    """What the class's VALIDATE_INPUTS says: one error per input it names and call that is not True."""
    facts = schema.facts
    if facts.validate is None:
        return []
    named_inputs = {
        name: values
        for name, values in constants(node, schema).items()
        if facts.validate_signature.takes(name)
    }
    if "input_types" in facts.validate_signature.names:
        named_inputs["input_types"] = [dict(received)]
    if not named_inputs:
        return []
    function = getattr(schema.node_class, facts.validate)
    verdicts = await call_each(function, named_inputs, facts.input_is_list)
    return [
        _error(
            "custom_validation_failed",
            "Custom validation failed for node",
            name if verdict is False else f"{name} - {verdict}",
            {"input_name": name},
        )
        for name in named_inputs
        for verdict in verdicts
        if verdict is not True and not isinstance(verdict, ExecutionBlocker)
    ]


def types_match(received: Any, declared: Any) -> bool:
    """Whether an output of type `received` may feed an input of type `declared`.

    Equal types do, as judged by `!=`, which classes of strings override to match anything. Otherwise
    both are names joined by commas and share one, or one of them is `*`.
    """
    differ = received != declared  # not `==`: those classes override only `!=`
    if not differ:
        return True
    if not isinstance(received, str) or not isinstance(declared, str):
        return False
    given = {name.strip() for name in received.split(",")}
    taken = {name.strip() for name in declared.split(",")}
    return "*" in given or "*" in taken or not given.isdisjoint(taken)


def exception_error(error: Exception, via: Via | None) -> Error:
    """The answer for a node whose check raised; `via` is the input that leads to it, if any."""
    if isinstance(error, Malformed):
        kind, trace = error.kind, [error.reason]
    else:
        kind, trace = full_name(type(error)), traceback.format_tb(error.__traceback__)
    if via is None:
        info = {"exception_type": kind, "traceback": trace}
        return _error("exception_during_validation", "Exception when validating node", str(error), info)
    info = {
        "input_name": via.name,
        "input_config": via.spec.config,
        "exception_message": str(error),
        "exception_type": kind,
        "traceback": trace,
        "linked_node": via.link,
    }
    return _error(
        "exception_during_inner_validation", "Exception when validating inner node", str(error), info
    )


def cycle_error(names: list[str]) -> Error:
    """The answer for each node on a cycle (where ComfyUI's names no node at all)."""
    return _error(
        "dependency_cycle", "Dependency cycle detected", describe_cycle(names), {"cycle_nodes": names}
    )


def describe_cycle(names: list[str]) -> str:
    """`a -> b -> a`, in the direction of the links, with the middle of a long one left out."""
    shown = names
    if len(names) > _LONGEST_CYCLE_SHOWN:
        half = _LONGEST_CYCLE_SHOWN // 2
        shown = [*names[:half], f"({len(names) - 2 * half} more)", *names[-half:]]
    return " -> ".join([*shown, names[0]])


def full_name(exception: type) -> str:
    """As ComfyUI names exceptions: builtin ones bare, others with their module."""
    if exception.__module__ == "builtins":
        return exception.__qualname__
    return f"{exception.__module__}.{exception.__qualname__}"


def _error(kind: str, message: str, details: str, extra_info: dict[str, Any]) -> Error:
    return {"type": kind, "message": message, "details": details, "extra_info": extra_info}


def _check_link(graph: Graph, node: GraphNode, schemas: Schemas, found: Found, via: Via) -> None:
    name, spec, link = via
    info = {"input_name": name, "input_config": spec.config}
    if len(link) != 2:
        message = "Bad linked input, must be a length-2 list of [node_id, slot_index]"
        found.errors.append(_error("bad_linked_input", message, name, {**info, "received_value": link}))
        return
    received = _linked_type(graph, node, schemas, via)
    found.received[name] = received
    validator = found.schema.facts.validate_signature
    if not (validator and "input_types" in validator.names) and not types_match(received, spec.type):
        found.errors.append(
            _error(
                "return_type_mismatch",
                "Return type mismatch between linked nodes",
                f"{name}, received_type({received}) mismatch input_type({spec.type})",
                {**info, "received_type": received, "linked_node": link},
            )
        )
        return
    found.links.append(via)


def _linked_type(graph: Graph, node: GraphNode, schemas: Schemas, via: Via) -> Any:
    source_id, slot = via.link
    place = f"input {via.name} of node {node}"
    source = graph.nodes.get(source_id) if isinstance(source_id, str) else None
    if source is None:
        reason = f"{place} links to node {source_id}, which is not in the prompt"
        raise Malformed("KeyError", repr(source_id), reason)
    types = return_types(schemas.node_class(source.class_type))
    try:
        return types[slot]
    except (IndexError, TypeError) as error:
        reason = f"{place} links to output {slot} of node {source}, which has {len(types)}"
        raise Malformed(type(error).__name__, str(error), reason) from None


def _convert(inputs: dict[str, Any], name: str, spec: InputSpec) -> Error | None:
    value = unwrapped(inputs[name])
    if not is_link(value):  # a list that looks like a link has to stay wrapped
        inputs[name] = value
    # str.__str__: types that equal anything are not hashable
    convert = _CONVERSIONS.get(str.__str__(spec.type)) if isinstance(spec.type, str) else None
    if convert is None:
        return None
    try:
        inputs[name] = convert(value)
    except (TypeError, ValueError, OverflowError) as error:
        return _error(
            "invalid_input_type",
            f"Failed to convert an input value to a {spec.type} value",
            f"{name}, {value}, {error}",
            {
                "input_name": name,
                "input_config": spec.config,
                "received_value": value,
                "exception_message": str(error),
            },
        )
    return None


def _out_of_range(name: str, spec: InputSpec, value: Any) -> Error | None:
    def refusal(kind: str, message: str, details: str = name, config: Any = spec.config) -> Error:
        info = {"input_name": name, "input_config": config, "received_value": value}
        return _error(kind, message, details, info)

    least, most = spec.options.get("min"), spec.options.get("max")
    if least is not None and value < least:
        return refusal("value_smaller_than_min", f"Value {value} smaller than min of {least}")
    if most is not None and value > most:
        return refusal("value_bigger_than_max", f"Value {value} bigger than max of {most}")
    if isinstance(spec.type, list) and value not in spec.type:
        if len(spec.type) <= _LONGEST_LIST_SHOWN:
            return refusal("value_not_in_list", "Value not in list", f"{name}: '{value}' not in {spec.type}")
        # Folders of models can list thousands.
        details = f"{name}: '{value}' not in (list of length {len(spec.type)})"
        return refusal("value_not_in_list", "Value not in list", details, None)
    return None
