"""Best-effort exchange of rollout groups."""
