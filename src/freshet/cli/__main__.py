"""`python -m freshet.cli`."""

from __future__ import annotations

import sys

from freshet.cli import main

if __name__ == "__main__":
    sys.exit(main())
