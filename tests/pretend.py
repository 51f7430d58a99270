"""A device that computes nothing and says where tensors of host and device are mixed, as a card
does.

`python -m tests.pretend` runs generation, training and a resume on it, and prints what became of
each as JSON. With `--without-float64` the device refuses float64, as Apple's do, and what
could use it is run. Tensors on it are torch's FakeTensors: they have shape, type and device.
Numbers that the host reads from them are made up, and the reads are counted.

The function of torch that makes a device with a name is private: only `make_device` uses it. torch
2.9 to 2.13 have it. Without it, `torch.utils.rename_privateuse1_backend` and a module of that name
do the same by hand.
"""

import contextlib
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

NAME = "pretend"


def make_device() -> torch.device:
    """Makes the device. Only once in a process: torch has room for one."""
    from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

    _setup_privateuseone_for_python_backend(NAME)
    return torch.device(NAME, 0)


class Pretend(TorchDispatchMode):
    """Fakes operators that touch the device, and computes all others."""

    def __init__(self, float64: bool = True) -> None:
        """`float64`: whether the device has it; Apple's devices do not."""
        super().__init__()
        self.fake = FakeTensorMode(allow_non_fake_inputs=True)
        self.waits: Counter[str] = Counter()
        self._float64 = float64

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        leaves = tree_leaves((args, kwargs))
        named = any(isinstance(x, torch.device) and x.type == NAME for x in leaves)
        if not named and not any(isinstance(x, FakeTensor) for x in leaves):
            return func(*args, **kwargs)
        args, kwargs = tree_map(self._faked, (args, kwargs))
        with self.fake:
            made = self._asked(func, args, kwargs)
        if not self._float64 and any(_is_float64_there(x) for x in tree_leaves(made)):
            raise TypeError(f"{NAME} has no float64: {func.__name__}")  # as MPS says it
        return made

    def _faked(self, x: Any) -> Any:
        """A tensor of the host as a fake, which has no numbers either."""
        return (
            self.fake.from_tensor(x)
            if isinstance(x, torch.Tensor) and not isinstance(x, FakeTensor)
            else x
        )

    def _asked(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The result of an operator. An operator that reads numbers gets made-up ones, and counts
        as a wait.
        """
        name = func.__name__.split(".")[0]
        if name == "_local_scalar_dense":
            self.waits[name] += 1
            return {torch.bool: True}.get(args[0].dtype, 1.0 if args[0].is_floating_point() else 1)
        if name == "index" and any(
            isinstance(i, torch.Tensor) and i.dtype == torch.bool for i in args[1]
        ):
            self.waits[name] += 1
            return args[0].new_empty(3)
        return func(*args, **kwargs)


def _is_float64_there(x: Any) -> bool:
    return isinstance(x, torch.Tensor) and x.device.type == NAME and x.dtype == torch.float64


def on_pretend(model: Any, device: torch.device) -> Any:
    """The same modules with parameters and buffers on the device; tied parameters stay tied."""
    made: dict[int, torch.nn.Parameter] = {}
    for module in model.modules():
        for name, old in list(module._parameters.items()):
            if old is not None:
                new = torch.nn.Parameter(
                    torch.empty(old.shape, dtype=old.dtype, device=device), old.requires_grad
                )
                module._parameters[name] = made.setdefault(id(old), new)
        for name, old in list(module._buffers.items()):
            if old is not None:
                module._buffers[name] = torch.empty(old.shape, dtype=old.dtype, device=device)
    return model


@contextlib.contextmanager
def pretending(float64: bool = True) -> Iterator[tuple[torch.device, Pretend]]:
    """The device and its mode. Patches of torch stay for the rest of the process."""
    device = make_device()
    torch.autocast = lambda *_, **__: contextlib.nullcontext()  # type: ignore[assignment,misc]  # none for this device
    mode = Pretend(float64)
    listed = torch.Tensor.tolist

    def tolist(tensor: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return listed(tensor)
        mode.waits["tolist"] += 1
        return listed(torch.zeros(tensor.shape, dtype=tensor.dtype))

    made = torch.tensor

    # Torch's own looks at no mode
    def tensor(data: Any, *, device: Any = None, **options: Any) -> Any:
        values = made(data, **options)
        return values if device is None else values.to(device)

    torch.Tensor.tolist, torch.tensor = tolist, tensor  # type: ignore[assignment,method-assign]
    FakeTensor.tolist = tolist  # type: ignore[method-assign]  # which has its own
    with mode:
        yield device, mode


def host_of(mode: Pretend) -> Callable[[Any], Any]:
    """Stands in for `device.on_host` with made-up values: at first all slots run, later the first
    half of them.
    """

    def on_host(tensor: Any) -> Any:
        if not isinstance(tensor, FakeTensor):
            return tensor
        mode.waits["on_host"] += 1
        made = torch.ones(tensor.shape, dtype=tensor.dtype)
        if tensor.dtype == torch.bool and mode.waits["on_host"] > 1:
            made[len(made) // 2 :] = False
        return made

    return on_host


def main() -> None:
    inference, torch.inference_mode = torch.inference_mode, torch.no_grad  # type: ignore[misc]  # fakes have none
    from tests import pretend_runs  # its imports use it as a decorator

    torch.inference_mode = inference  # type: ignore[misc]
    found: dict[str, Any] = {}
    float64 = "--without-float64" not in sys.argv[1:]
    with tempfile.TemporaryDirectory() as folder, pretending(float64) as (device, mode):
        for name, work in pretend_runs.runs(device, mode, Path(folder)).items():
            if not float64 and name not in pretend_runs.WITH_FLOAT64:
                continue
            mode.waits.clear()
            try:
                found[name] = {"result": work(), "waits": dict(mode.waits)}
            except Exception as error:  # noqa: BLE001  the test says which
                where = [
                    f"{f.filename}:{f.lineno}" for f in _frames(error) if "swarm_node" in f.filename
                ][-3:]
                said = str(error).splitlines() or [""]
                found[name] = {"failed": f"{type(error).__name__}: {said[0][:300]}", "where": where}
    sys.stdout.write(json.dumps(found) + "\n")


def _frames(error: BaseException) -> list[Any]:
    import traceback

    return list(traceback.extract_tb(error.__traceback__))


if __name__ == "__main__":
    main()
