"""The live page: write SQL, see the plan, watch the answer change."""
