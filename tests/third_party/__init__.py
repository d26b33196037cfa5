"""A package of a third party (``toybox`` and its dist-info), and how tests have it installed for a while."""
