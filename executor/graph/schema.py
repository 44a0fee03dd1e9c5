"""What the engine knows about a node class. The only module that reads the attributes of node classes.

Facts that belong to the class are read once per class. INPUT_TYPES is read once per prompt, because
combo inputs list files that come and go.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from .prompt import NodeNotFound


@dataclass(frozen=True, slots=True)
class InputSpec:
    """One declared input. `type` is a type name, names joined by commas, or a list of options."""

    type: Any
    required: bool
    options: Mapping[str, Any] = field(default_factory=dict)
    lazy: bool = False
    raw_link: bool = False

    @property
    def config(self) -> list[Any]:
        """`[type, options]`, the form in which errors show it."""
        return [self.type, dict(self.options)]


# An input that only INPUT_TYPES["hidden"] names but the prompt gives a value: passed as it is.
_HIDDEN_INPUT = InputSpec("*", required=False)


@dataclass(frozen=True, slots=True)
class Signature:
    """Names of the parameters a function takes; `anything` if it also has `**kwargs`."""

    names: frozenset[str]
    anything: bool

    def takes(self, name: str) -> bool:
        return self.anything or name in self.names


@dataclass(frozen=True, slots=True)
class ClassFacts:
    """What holds for a class whatever its inputs list at the moment.

    `changed` and `validate` are the names of class methods, None where the class has none.
    """

    function: str
    signature: Signature
    is_async: bool
    output_node: bool
    return_types: Sequence[Any]
    input_is_list: bool
    output_is_list: Sequence[bool] | None
    not_idempotent: bool
    checks_lazy: bool
    changed: str | None
    validate: str | None
    validate_signature: Signature | None


@dataclass(frozen=True, slots=True)
class NodeSchema:
    """A node class as one prompt sees it."""

    node_class: type
    facts: ClassFacts
    inputs: Mapping[str, InputSpec]
    optional: Mapping[str, Any]
    hidden: Mapping[str, str]
    by_id: bool  # the node id is part of the signature: no result is shared between nodes

    def input(self, name: str) -> InputSpec | None:
        """The declared input of that name. The `optional` mapping may claim names that it does not
        list: that is how classes accept any number of inputs."""
        spec = self.inputs.get(name)
        if spec is None:
            if name in self.optional:
                return _input_spec(self.optional[name], required=False)
            if name in self.hidden:
                return _HIDDEN_INPUT
        return spec

    def receives(self, name: str, spec: InputSpec | None) -> bool:
        """Whether a link at that input is followed. Undeclared ones are, if the function takes them."""
        return spec is not None or self.facts.signature.takes(name)


class Schemas(dict[str, NodeSchema]):
    """Schemas of the classes of one prompt, read as they are asked for."""

    def __init__(self, nodes: Mapping[str, type]) -> None:
        super().__init__()
        self._nodes = nodes

    def node_class(self, class_type: str) -> type:
        node_class = self._nodes.get(class_type)
        if node_class is None:
            raise NodeNotFound(f"there is no node class {class_type}")
        return node_class

    def __missing__(self, class_type: str) -> NodeSchema:
        schema = self[class_type] = read(self.node_class(class_type))
        return schema


def is_output(node_class: type) -> bool:
    return bool(getattr(node_class, "OUTPUT_NODE", False))


def return_types(node_class: type) -> Sequence[Any]:
    return getattr(node_class, "RETURN_TYPES", ())


def read(node_class: type) -> NodeSchema:
    facts = _facts.get(node_class)
    if facts is None:
        facts = _facts[node_class] = _read_facts(node_class)
    declared = node_class.INPUT_TYPES()
    optional = declared.get("optional", {})
    inputs = {name: _input_spec(info, required=True) for name, info in declared.get("required", {}).items()}
    for name, info in optional.items():
        inputs.setdefault(name, _input_spec(info, required=False))
    hidden = {name: _hidden_kind(info) for name, info in declared.get("hidden", {}).items()}
    return NodeSchema(
        node_class=node_class,
        facts=facts,
        inputs=inputs,
        optional=optional,
        hidden=hidden,
        by_id=facts.not_idempotent or "UNIQUE_ID" in hidden.values(),
    )


_facts: WeakKeyDictionary[type, ClassFacts] = WeakKeyDictionary()


def _read_facts(node_class: type) -> ClassFacts:
    function = getattr(node_class, node_class.FUNCTION)
    validate = getattr(node_class, "VALIDATE_INPUTS", None)
    return ClassFacts(
        function=node_class.FUNCTION,
        signature=_signature(function),
        is_async=inspect.iscoroutinefunction(function),
        output_node=is_output(node_class),
        return_types=tuple(return_types(node_class)),
        input_is_list=bool(getattr(node_class, "INPUT_IS_LIST", False)),
        output_is_list=getattr(node_class, "OUTPUT_IS_LIST", None),
        not_idempotent=bool(getattr(node_class, "NOT_IDEMPOTENT", False)),
        checks_lazy=getattr(node_class, "check_lazy_status", None) is not None,
        changed="IS_CHANGED" if hasattr(node_class, "IS_CHANGED") else None,
        validate="VALIDATE_INPUTS" if validate is not None else None,
        validate_signature=None if validate is None else _signature(validate),
    )


def _signature(function: Callable[..., Any]) -> Signature:
    parameters = inspect.signature(function).parameters.values()
    return Signature(
        names=frozenset(p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)),
        anything=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


def _input_spec(info: Any, *, required: bool) -> InputSpec:
    options = info[1] if len(info) > 1 else {}
    return InputSpec(
        info[0], required, options, bool(options.get("lazy", False)), bool(options.get("rawLink", False))
    )


def _hidden_kind(info: Any) -> str:
    """`"UNIQUE_ID"`, however it is wrapped: V3 schemas write `("UNIQUE_ID",)`."""
    return str(info if isinstance(info, str) else info[0])
