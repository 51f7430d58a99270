"""Number formats that the study of coarser quantisation emulates."""

import pytest
import torch

from lab.studies.fp8_formats import FORMATS, FewBits


@pytest.mark.parametrize(("bits", "dtype"), [((4, 3), torch.float8_e4m3fn), ((5, 2), torch.float8_e5m2)])
def test_rounding_is_that_of_torch_where_torch_has_the_format(bits: tuple[int, int], dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = (torch.randn(20000) * torch.randn(20000).mul(4).exp()).clamp(-240, 240)  # below where E4M3 and the rule differ
    halves = torch.arange(-240, 240, 0.5)
    for numbers in (x, halves, x * 2.0**-12):
        assert torch.equal(FewBits(exponent=bits[0], mantissa=bits[1]).rounded(numbers), numbers.to(dtype).float())


def test_four_bits_have_the_eight_magnitudes_of_their_specification() -> None:
    four = FORMATS["E2M1"]
    assert four.rounded(torch.linspace(0, four.largest, 1001)).unique().tolist() == [0, 0.5, 1, 1.5, 2, 3, 4, 6]
    assert FORMATS["E2M3"].largest == 7.5
