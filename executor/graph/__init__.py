"""ComfyUI's execution semantics as a library: validate, order, cache, run. Imports no torch.

validation = validate(prompt, nodes)
result = Engine(nodes).run(prompt, outputs=validation.outputs, sink=print)
"""

from .builder import GraphBuilder
from .engine import Engine
from .run import Result
from .validation import Validation, validate, validate_async

__all__ = ["Engine", "GraphBuilder", "Result", "Validation", "validate", "validate_async"]
