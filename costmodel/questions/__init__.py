"""The questions users ask: one module a question, a function that returns a frozen dataclass.

Field names are JSON keys; ``about`` is flattened into ``assumptions``, ``sources``, ``not_modelled`` and
``warnings``. Nothing here prints.
"""
