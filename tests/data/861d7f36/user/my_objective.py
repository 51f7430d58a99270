"""The policy gradient without a clip, for completions of any age."""

import torch

from swarm_node.training.objectives import Bounds, Terms, TokenLoss


def plain(terms: Terms, bounds: Bounds) -> TokenLoss:
    ratio = torch.exp(terms.log_probs - terms.proximal)
    loss = -(terms.weights * ratio * terms.advantages).sum()
    return TokenLoss(loss, ratio.detach(), torch.zeros_like(ratio, dtype=torch.bool))
