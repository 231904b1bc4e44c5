from elmo_plugin.analysis import Accuracies, Neighbor, Query, accuracies_page, neighbors_page
from elmo_plugin.analysis.nearest_contexts import Found


def test_neighbours_are_bold_in_their_sentences_beside_words_without_context() -> None:
    found = Found(
        [Neighbor(0.98765, 1234, ["*", "The", "a|b", "plays"], 3)],
        [Neighbor(0.5, 1, ["player_one", "x"], 0), Neighbor(0.25, 2, ["y", "_<z>"], 1)],
    )
    assert neighbors_page([Query(["A", "play", "."], 1)], [found], 2) == (
        "# Nearest neighbours in context\n\n## play\n\nA **play** .\n\n"
        "| layer 2, in context | cosine | line | token layer, without context | cosine |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
        "| \\* The a\\|b **plays** | 0.988 | 1,234 | player_one | 0.500 |\n"
        "|  |  |  | \\_\\<z\\> | 0.250 |\n"
    )


def test_one_row_per_layer_and_one_column_per_bilm() -> None:
    columns = {"tiny": Accuracies(50, [60, 70.126], 1000, 200), "random": Accuracies(50, [55, 65], 1000, 200)}
    assert accuracies_page("Tags", columns) == (
        "# What the layers know\n\n## Tags\n\n"
        "The accuracy of each layer by itself on 200 tokens, after training on 1,000.\n\n"
        "| layer | tiny | random |\n| --- | ---: | ---: |\n"
        "| most frequent label of the word | 50.00 | 50.00 |\n"
        "| 0, token layer | 60.00 | 55.00 |\n| 1 | 70.13 | 65.00 |\n"
    )
