import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from itertools import chain
from pathlib import Path

import pytest
from slipstream.executor import context
from slipstream.executor.library.saving import Series
from slipstream.executor.models import folders


def writer(content):
    return lambda path: path.write_text(content)


def test_counts_on_from_what_is_there(places):
    (places.output / "x_00007_.png").touch()
    series = Series("x", "output")
    names = [series.save(".png", writer("a"))["filename"] for _ in range(2)]
    assert names == ["x_00008_.png", "x_00009_.png"]


def test_reference_names_folder_and_kind(places):
    reference = Series("a/b/x", "temp").save(".png", writer("a"))
    assert reference == {"filename": "x_00001_.png", "subfolder": str(Path("a", "b")), "type": "temp"}
    assert (places.temp / "a" / "b" / "x_00001_.png").read_text() == "a"


@pytest.mark.parametrize("error", [ValueError, context.Interrupted, KeyboardInterrupt])
def test_nothing_remains_when_writing_fails(places, error):
    def half(path):
        path.write_text("half")
        raise error

    with pytest.raises(error):
        Series("x", "output").save(".png", half)
    assert list(places.output.iterdir()) == []


def test_unfinished_files_are_hidden_from_the_counter(places):
    def look(path):
        assert path.parent == places.output
        assert Series("x", "output").counter == 1
        path.write_text("whole")

    Series("x", "output").save(".png", look)
    assert [path.name for path in places.output.iterdir()] == ["x_00001_.png"]


def save_many(worker, count):
    return [
        Series("x", "output").save(".png", writer(f"{worker} {number}"))["filename"]
        for number in range(count)
    ]


def check_all_kept(places, found, count):
    """`found`: the names that each worker got."""
    names = list(chain.from_iterable(found))
    assert len(set(names)) == len(names) == len(found) * count
    contents = {(places.output / name).read_text() for name in names}
    assert contents == {f"{worker} {number}" for worker in range(len(found)) for number in range(count)}
    assert len(list(places.output.iterdir())) == len(names)


def test_threads_never_overwrite_each_other(places):
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda worker: save_many(worker, 20), range(8)))
    check_all_kept(places, found, 20)


SAVE_FROM_A_PROCESS = """
import json, sys
from slipstream.executor.library.saving import Series
from slipstream.executor.models import folders
output, worker, count = sys.argv[1:]
folders.use(folders.Folders(output=output))
write = lambda number: lambda path: path.write_text(f"{worker} {number}")
print(json.dumps([Series("x", "output").save(".png", write(n))["filename"] for n in range(int(count))]))
"""


def test_processes_never_overwrite_each_other(places):
    command = [sys.executable, "-c", SAVE_FROM_A_PROCESS, places.output]
    processes = [
        subprocess.Popen([*command, str(worker), "40"], stdout=subprocess.PIPE, text=True)
        for worker in range(3)
    ]
    found = [json.loads(process.communicate(timeout=60)[0]) for process in processes]
    check_all_kept(places, found, 40)


def test_without_hard_links(places, monkeypatch):
    def refuse(source, target):
        raise PermissionError("no hard links here")

    monkeypatch.setattr(os, "link", refuse)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda worker: save_many(worker, 10), range(8)))
    check_all_kept(places, found, 10)


def test_prefix_stays_in_its_directory(places):
    with pytest.raises(folders.OutsideFolder):
        Series("../x", "output")
