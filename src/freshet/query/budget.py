"""Steps that a search may take.

Many choices of a plan have exponentially many candidates, and some have no quick way to the best. Each search looks at
as many as its budget allows, likely ones first, and then takes the best it has seen or goes on greedily. Budgets count
steps, not time, so the same query always gets the same plan.
"""

from __future__ import annotations


class StepBudget:
    def __init__(self, steps: int) -> None:
        self.left = steps

    def spend(self, steps: int = 1) -> bool:
        """Takes steps from the budget; whether it had them."""
        self.left -= steps
        return self.left >= 0
