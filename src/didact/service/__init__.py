"""The web service: explanations over HTTP, from models that its operator configured."""
