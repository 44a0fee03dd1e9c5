"""Damaged files of every kind: what is still there, or one clear error; never a traceback."""

import json

from carriers import ALL, CANVAS, PROMPT
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from slipstream.executor.workflow import files
from slipstream.executor.workflow.errors import WorkflowError

KINDS = st.sampled_from(sorted(ALL))
EDIT = st.tuples(
    st.sampled_from(["flip", "cut", "delete", "insert", "copy", "other"]),
    st.integers(0, 2**16),
    st.integers(0, 30),
    st.integers(0, 255),
)
TEXTS = [
    json.dumps(PROMPT),
    json.dumps(CANVAS, indent=1),
    json.dumps({"prompt": PROMPT, "extra_data": {"extra_pnginfo": {"workflow": CANVAS}}}),
]


def damaged(data, edits, other):
    data = bytearray(data)
    for what, place, length, value in edits:
        at = place % (len(data) + 1)
        if what == "flip" and at < len(data):
            data[at] ^= 1 << value % 8
        elif what == "cut":
            del data[at:]
        elif what == "delete":
            del data[at : at + length]
        elif what == "insert":
            data[at:at] = bytes([value]) * length
        elif what == "copy":
            data[at:at] = data[value : value + length]
        elif what == "other":
            data[at : at + length] = other[place % len(other) :][:length]
    return bytes(data)


def check(path, data):
    path.write_bytes(data)
    try:
        file = files.read(path)
    except WorkflowError as error:
        assert str(error).startswith(f"{path}: ")
        assert "\n" not in str(error)
    else:
        json.dumps([file.prompt, file.canvas], allow_nan=False)


SETTINGS = settings(
    max_examples=200,
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@SETTINGS
@given(kind=KINDS, other=KINDS, edits=st.lists(EDIT, min_size=1, max_size=5))
def test_damaged_carriers(tmp_path, kind, other, edits):
    check(tmp_path / "damaged", damaged(ALL[kind], edits, ALL[other]))


@SETTINGS
@given(
    text=st.sampled_from(TEXTS),
    other=st.sampled_from(["NaN", "-Infinity", "1e999", "[" * 300, "null", '"\\ud800"', "9" * 5000]),
    encoding=st.sampled_from(["utf-8", "utf-8-sig", "utf-16", "utf-32"]),
    edits=st.lists(EDIT, min_size=1, max_size=3),
)
def test_damaged_texts(tmp_path, text, other, encoding, edits):
    check(tmp_path / "damaged", damaged(text.encode(encoding), edits, other.encode(encoding)))


@SETTINGS
@given(data=st.binary(max_size=300))
def test_any_bytes(tmp_path, data):
    check(tmp_path / "damaged", data)
