"""Batches of sentences of similar length within a token budget."""

import random

from elmo_plugin.text.length_batches import length_batches


def test_batches_have_every_sentence_once_sorted_by_length_within_both_limits() -> None:
    draw = random.Random(0)
    lengths = [draw.randrange(30) for _ in range(500)]
    batches = list(length_batches(lengths, tokens_per_batch=100, batch_size=9))
    places = [place for batch in batches for place in batch]
    assert sorted(places) == list(range(500))
    assert [lengths[place] for place in places] == sorted(lengths)
    sizes = [(len(batch), len(batch) * (lengths[batch[-1]] + 2)) for batch in batches]
    assert all(count <= 9 and tokens <= 100 for count, tokens in sizes)
    assert max(count for count, _ in sizes) == 9 and max(tokens for _, tokens in sizes) > 90


def test_a_batch_ends_where_the_next_sentence_would_be_one_token_too_many() -> None:
    assert list(length_batches([3, 3, 3, 3, 3], tokens_per_batch=10)) == [[0, 1], [2, 3], [4]]
    assert list(length_batches([3, 3, 3, 3, 3], tokens_per_batch=9)) == [[0], [1], [2], [3], [4]]


def test_a_sentence_beyond_the_limit_is_a_batch_of_its_own() -> None:
    assert list(length_batches([50, 1, 60, 0], tokens_per_batch=20)) == [[3, 1], [0], [2]]
