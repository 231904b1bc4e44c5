"""Our `Elmo` where a model of AllenNLP has the parameter `elmo: Elmo`, such as `bcn` of allennlp-models."""

from typing import Any

from allennlp.common import FromParams, Params
from allennlp.modules.elmo import Elmo as AllenNlpElmo

from elmo_plugin.compat import replace_name
from elmo_plugin.elmo.elmo import Elmo


def build_ours_where_a_config_asks_for_it() -> None:
    """Let the configs `elmo: {type: 'elmo', …}` and `elmo: {bilm: …}` of AllenNLP's models build our `Elmo`.

    Symptom: `Extra parameters passed to Elmo: {'type': 'elmo'}`. Cause: the parameter has AllenNLP's class as its type,
    which is not registrable. Guard: AllenNLP's class has neither `type` nor `bilm`, so configs with these keys failed;
    all others build what they built.
    """
    original: Any = vars(AllenNlpElmo).get("from_params", vars(FromParams)["from_params"]).__func__
    if hasattr(original, "_repaired"):
        return

    def from_params(cls: type[AllenNlpElmo], params: Any, *args: Any, **kwargs: Any) -> Any:
        if cls is AllenNlpElmo and isinstance(params, Params) and (params.get("type") == "elmo" or "bilm" in params):
            return Elmo.from_params(params, *args, **kwargs)
        return original(cls, params, *args, **kwargs)

    from_params._repaired = True  # type: ignore[attr-defined]
    replace_name(AllenNlpElmo, "from_params", classmethod(from_params))
