"""Tokenizers: spaCy's rules with limits on time and memory."""

import pickle
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Tokenizer
from hypothesis import given
from hypothesis import strategies as st

from elmo_plugin.text import tokenizer as tokenizer_module
from elmo_plugin.text.tokenizer import (
    LONGEST_RUN,
    LONGEST_RUN_OF_MARKS,
    SpacyBlankTokenizer,
)

ENGLISH = SpacyBlankTokenizer()


class Seen:
    """spaCy's tokenizer for a language, and the texts that it gets."""

    def __init__(self, language: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.texts: list[str] = []
        self._rules = tokenizer_module._rules(language)
        monkeypatch.setattr(tokenizer_module, "_rules", lambda language: self)

    def __call__(self, text: str) -> Any:
        self.texts.append(text)
        return self._rules(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rules, name)


def texts(tokenizer: Tokenizer, text: str) -> list[str]:
    return [token.ensure_text() for token in tokenizer.tokenize(text)]


def test_splits_by_the_rules_of_english() -> None:
    assert texts(ENGLISH, "Dr. Nora doesn't pay $5.") == ["Dr.", "Nora", "does", "n't", "pay", "$", "5", "."]


def test_is_built_by_a_config() -> None:
    tokenizer = Tokenizer.from_params(Params({"type": "spacy_blank", "language": "it"}))
    assert isinstance(tokenizer, SpacyBlankTokenizer)
    assert texts(tokenizer, "l'acqua") == ["l'", "acqua"]
    assert texts(Tokenizer.from_params(Params({"type": "spacy_blank"})), "don't") == ["do", "n't"]


def test_strings_of_earlier_texts_are_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("elmo_plugin.text.tokenizer.MOST_STRINGS", 3000)
    tokenizer = SpacyBlankTokenizer()
    for number in range(30):
        words = [f"word{number}a{each}" for each in range(100)]
        assert texts(tokenizer, " ".join(words)) == words
        assert len(tokenizer_module._rules("en").vocab.strings) < 4000


def test_tokenizers_of_a_language_share_its_rules_and_load_them_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = SpacyBlankTokenizer("la"), SpacyBlankTokenizer("la")
    before = tokenizer_module._rules("la")
    assert before is not tokenizer_module._rules("en")
    monkeypatch.setattr(tokenizer_module, "MOST_STRINGS", len(before.vocab.strings))
    assert texts(first, "rosarum") == texts(second, "rosarum") == ["rosarum"]
    again = tokenizer_module._rules("la")
    assert again is not before
    assert texts(first, "est") == ["est"]
    assert tokenizer_module._rules("la") is again


@pytest.mark.parametrize("text", ["", " ", "\n\n", " \t\u00a0\u3000 \n"])
def test_whitespace_is_no_token(text: str) -> None:
    assert texts(ENGLISH, text) == []
    assert texts(ENGLISH, f"{text}  two \n words {text}") == ["two", "words"]


@given(st.text())
def test_offsets_lead_back_to_the_text(text: str) -> None:
    tokens = ENGLISH.tokenize(text)
    assert all(text[token.idx : token.idx_end] == token.text for token in tokens)
    assert "".join(str(token.text) for token in tokens) == "".join(text.replace("\u200b", " ").split())


def test_long_runs_of_characters_and_of_marks_are_cut_before_spacy_sees_them(monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer, seen = SpacyBlankTokenizer(), Seen("en", monkeypatch)
    marks = "(" * 3 * LONGEST_RUN_OF_MARKS
    text = f"don't {marks} {'a' * LONGEST_RUN} {'b' * LONGEST_RUN}b{marks} panic."
    tokens = tokenizer.tokenize(text)
    runs = [run for part in seen.texts for run in part.split()]
    assert "".join(seen.texts) == text and max(map(len, runs)) == LONGEST_RUN
    assert max(run.count("(") for run in runs) == LONGEST_RUN_OF_MARKS
    assert all(text[token.idx : token.idx_end] == token.text for token in tokens)
    words = [token.text for token in tokens if token.text != "("]
    assert words == ["do", "n't", "a" * LONGEST_RUN, "b" * LONGEST_RUN, "b", "panic", "."]


@pytest.mark.parametrize(
    ("language", "affix"), [("en", "'s"), ("id", "-ku"), ("ms", "RM"), ("el", "9mg"), ("xx", "http://a.b/")]
)
def test_no_language_searches_a_long_run(
    language: str, affix: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """spaCy takes off one affix after the other, and each time searches what is left; what is cut is said once."""
    tokenizer, seen = SpacyBlankTokenizer(language), Seen(language, monkeypatch)
    monkeypatch.setattr(tokenizer_module.logger, "_seen_msgs", set())
    text = f"a{500 * affix}"
    for _ in range(2):
        assert "".join(texts(tokenizer, text)) == text
    assert max(map(len, seen.texts)) == LONGEST_RUN
    assert [str(LONGEST_RUN) in record.getMessage() for record in caplog.records] == [True]


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("我在Google工作了2024年。", "我 在 Google 工 作 了 2024 年 。"),
        ("他说：“Hello，world！”3.5万（50%）", "他 说 ： “ Hello ， world ！ ” 3.5 万 （ 50 % ）"),
        ("２０２４年ＧＯＯＧＬＥ", "２０２４ 年 ＧＯＯＧＬＥ"),
        ("我" * 94 + "Google" + "我" * 200, "我 " * 94 + "Google" + " 我" * 200),
        ("看http://example.com/a吧", "看 http://example.com/a 吧"),
    ],
)
def test_chinese_characters_are_tokens_and_latin_words_and_numbers_stay_whole(text: str, tokens: str) -> None:
    chinese = SpacyBlankTokenizer("zh")
    assert chinese.words(text) == texts(chinese, text) == tokens.split()
    assert all(text[token.idx : token.idx_end] == token.text for token in chinese.tokenize(text))


@pytest.mark.parametrize(
    ("language", "text", "tokens"),
    [
        ("hy", "Բարեւ։ Ինչպես", "Բարեւ ։ Ինչպես"),
        ("km", "ភាសា។", "ភាសា ។"),
        ("my", "သူလာ၊ သူ။", "သူလာ ၊ သူ ။"),
        ("bo", "ང་ཡིན།ཁྱོད་རེད།།", "ང་ཡིན ། ཁྱོད་རེད ། །"),
        ("sa", "नमः॥", "नमः ॥"),
        ("ti", "ሰላም፡ለዓለም።", "ሰላም ፡ ለዓለም ።"),
    ],
)
def test_marks_of_other_scripts_are_tokens(language: str, text: str, tokens: str) -> None:
    tokenizer = SpacyBlankTokenizer(language)
    assert tokenizer.words(text) == texts(tokenizer, text) == tokens.split()


def test_a_zero_width_space_separates_tokens() -> None:
    assert texts(ENGLISH, "The\u200bship.") == ["The", "ship", "."]
    assert texts(SpacyBlankTokenizer("km"), "ភាសា\u200bខ្មែរ") == ["ភាសា", "ខ្មែរ"]


@pytest.mark.parametrize("language", ["qq", "en_core_web_sm"])
def test_an_unknown_language_is_named(language: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"'language': .*'{language}'"):
        SpacyBlankTokenizer(language)


def test_pickles() -> None:
    copy = pickle.loads(pickle.dumps(SpacyBlankTokenizer("it")))
    assert copy.stop_words == SpacyBlankTokenizer("it").stop_words
    assert texts(copy, "l'acqua") == ["l'", "acqua"]
