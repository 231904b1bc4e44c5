"""MODELS → A WEB SERVER: a JSON API and one web page. It needs the extra `serve`; nothing else imports this package."""

from elmo_plugin.serving.app import make_app
from elmo_plugin.serving.limits import Limits, read_limits
from elmo_plugin.serving.model import ServedModel, load_served
from elmo_plugin.serving.server import serve

__all__ = ["Limits", "ServedModel", "load_served", "make_app", "read_limits", "serve"]
