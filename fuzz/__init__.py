"""A seeded fuzz harness: hostile calls, command lines, recipes, files and damaged artefacts, each case by its number.

    python -m fuzz --seed 7 --calls 25000 --commands 500 --recipes 2000 --files 5000 --mutations 1000 --workers 16
    python -m fuzz --seed 7 --only api:1234        run one case again and print its traceback

A case is decided by the seed, its kind and its number alone. It passes where the call returns something that keeps its
promises (``fuzz.invariants``), or is refused by a ``DidactError``.
"""
