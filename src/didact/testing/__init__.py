"""For people who write methods and models: tiny models built in code, and the checks every explainer must pass.

A third party's test file needs three lines::

    import pytest
    from didact.testing.conformance import CHECKS, check

    @pytest.mark.parametrize("name", CHECKS)
    def test_my_method(name): check(name, MyMethod())
"""
