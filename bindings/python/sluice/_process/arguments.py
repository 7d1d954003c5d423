"""Checks of arguments that the drop-ins share."""

from __future__ import annotations

from typing import Any

from sluice import Hint, Schedule

# Those that rank weight gradients apart from their backwards.
SPLITTING_HINTS = ("bfw", "pace")


def whole_backwards(hint: str | Hint | Schedule, reason: str) -> Hint | Schedule:
    """The hint. Raises ValueError with the reason for one that splits backwards."""
    method = Hint(hint) if isinstance(hint, str) else hint
    if isinstance(method, Hint) and method.name in SPLITTING_HINTS:
        raise ValueError(f"hint: {method.name!r} {reason}; use 'bf'")
    return method


def check_limit(limit: Any) -> None:
    if isinstance(limit, bool) or not isinstance(limit, int) or limit < 1:
        raise ValueError(f"limit: must be a whole number of at least 1, not {limit!r}")
