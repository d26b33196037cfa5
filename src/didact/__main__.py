"""``python -m didact``."""

from __future__ import annotations

import sys

from didact.cli import main

sys.exit(main())
