"""For people who add to didact: tiny models built in code, and the checks that every registered thing must pass.

A module per family: ``conformance`` (methods), ``metrics``, ``models`` (readers and heads), ``students``, ``channels``,
``learned`` (shapes and signals), ``presets``, ``recipes``. A third party's test file needs a few lines::

    import pytest
    from didact.testing.conformance import CASES, applicable, check

    ROWS = [(case, name) for case in CASES for name in applicable(MyMethod.card, case)]

    @pytest.mark.parametrize(("case", "name"), ROWS)
    def test_my_method(case, name): check(name, MyMethod(), case)
"""
