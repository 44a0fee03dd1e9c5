import json
from pathlib import Path

import pytest
from slipstream.executor.models.prompt import ChunkRules, chunked, weighted_pieces, words

GOLDEN = Path(__file__).parents[1] / "data" / "nodes" / "golden.json"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))["prompt_weights"]
CLIP = ChunkRules(start=90, end=91, pad=91, max_length=12, fill=True)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["prompt"] or "empty")
def test_pieces_as_comfyui_splits_them(case):
    assert [list(piece) for piece in weighted_pieces(case["prompt"])] == case["pieces"]


def test_a_closing_parenthesis_too_many_leaves_the_rest_unweighted():
    assert weighted_pieces("a) (b:1.5)") == [("a) (b:1.5)", 1.0)]


def test_words_are_cut_before_embeddings():
    assert words("a cat embedding:one, embedding:two\nembedding:three") == [
        "a cat",
        "embedding:one,",
        "embedding:two",
        "embedding:three",
    ]
    assert words("embedding:one") == ["embedding:one"]
    assert words("(embedding:one") == ["(embedding:one"]


def ids(chunks):
    return [[token for token, _ in chunk] for chunk in chunks]


def word(*tokens):
    return [(token, 1.0) for token in tokens]


def test_an_empty_prompt_is_one_padded_chunk():
    assert ids(chunked([], CLIP)) == [[90, *[91] * 11]]


def test_a_short_word_goes_to_the_next_chunk():
    chunks = chunked([word(*range(8)), word(8, 9, 10)], CLIP)
    assert ids(chunks) == [[90, *range(8), 91, 91, 91], [90, 8, 9, 10, *[91] * 8]]


def test_a_long_word_is_cut():
    chunks = chunked([word(1, 2, 3), word(*range(10, 20))], CLIP)
    assert ids(chunks) == [[90, 1, 2, 3, *range(10, 17), 91], [90, 17, 18, 19, *[91] * 8]]


def test_a_word_longer_than_a_small_chunk_is_cut_too():
    small = ChunkRules(start=90, end=91, pad=91, max_length=5, fill=True)
    assert ids(chunked([word(1, 2, 3, 4, 5)], small)) == [[90, 1, 2, 3, 91], [90, 4, 5, 91, 91]]


def test_without_limit_there_is_one_chunk_padded_to_the_least_length():
    t5 = ChunkRules(start=None, end=1, pad=0, max_length=None, fill=False, min_length=6)
    assert ids(chunked([word(7, 8)], t5)) == [[7, 8, 1, 0, 0, 0]]
    assert ids(chunked([word(*range(10, 110))], t5)) == [[*range(10, 110), 1]]
    assert t5.empty(3) == [1, 0, 0]


def test_special_tokens_have_weight_one():
    (chunk,) = chunked([[(5, 1.4)]], CLIP)
    assert [weight for _, weight in chunk] == [1.0, 1.4, *[1.0] * 10]
