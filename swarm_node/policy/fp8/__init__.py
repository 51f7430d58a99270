"""FP8: what is quantised how, the three products of a linear layer, the kernels behind them."""
