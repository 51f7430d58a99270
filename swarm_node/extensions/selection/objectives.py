"""What external completions teach."""

import torch

from swarm_node.training.objectives import Bounds, Terms, TokenLoss, clipped


def imitating(terms: Terms, bounds: Bounds) -> TokenLoss:
    """Supervised fine-tuning on external completions that are better than their group, nothing from the others; local
    ones as in `clipped`."""
    better = (terms.advantages > 0).to(terms.advantages.dtype)
    return clipped(terms._replace(advantages=torch.where(terms.external, better, terms.advantages)), bounds)
