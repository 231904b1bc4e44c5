"""Our `Elmo` where a model of AllenNLP has the parameter `elmo: Elmo`, such as `bcn` of allennlp-models."""

from typing import Any

from allennlp.common import Params
from allennlp.modules.elmo import Elmo as AllenNlpElmo

from elmo_plugin.compat import Function, replaces
from elmo_plugin.elmo.elmo import Elmo


@replaces(AllenNlpElmo, "from_params")
def build_ours_where_a_config_asks_for_it(
    original: Function, cls: type[AllenNlpElmo], params: Any, *args: Any, **kwargs: Any
) -> Any:
    """Let the configs `elmo: {type: 'elmo', …}` and `elmo: {bilm: …}` of AllenNLP's models build our `Elmo`.

    Symptom: `Extra parameters passed to Elmo: {'type': 'elmo'}`. Cause: the parameter has AllenNLP's class as its type,
    which is not registrable. Guard: AllenNLP's class has neither `type` nor `bilm`, so configs with these keys failed;
    all others build what they built.
    """
    if cls is AllenNlpElmo and isinstance(params, Params) and (params.get("type") == "elmo" or "bilm" in params):
        return Elmo.from_params(params, *args, **kwargs)
    return original(cls, params, *args, **kwargs)
