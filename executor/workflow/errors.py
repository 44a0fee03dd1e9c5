"""What can be wrong with a workflow file or with a value given for one of its inputs."""


class WorkflowError(ValueError):
    """The file cannot be read as a workflow. The message is one line for the person who gave the file."""


class UnknownNodes(WorkflowError):
    """The file cannot be converted without node types that nobody here defines: `types` maps each to the ids
    of its nodes."""

    def __init__(self, types: dict[str, list[str]]):
        names = ", ".join(f"{kind} (node {', '.join(ids)})" for kind, ids in types.items())
        super().__init__(f"cannot be converted: node types that are not known here: {names}")
        self.types = types


class SettingError(ValueError):
    """A value given for an input does not fit: unknown name, linked input, wrong type."""
