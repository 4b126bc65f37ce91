<%text>#</%text> ${n.distribution}

A target of dory: ${n.name}.

    pip install -e ".[test]"
    dory targets
    dory --target ${n.name} net.tflite -o app && dory run app    # with dory-tflite installed
    pytest                                # pytest -m '' adds long sweeps

It works as it is, on the host simulation and with the plain C kernels of dory. What makes it your chip:

- `${n.package}/hardware.py`: memories, DMA and number of cores, as data. The numbers there are examples.
- `${n.package}/plugin.py`: the hooks. Add kernels of your own before the portable ones in `dory_kernels`, the C
  files that drive your DMA in `dory_dma_hal`, main, start-up code and linker script in `dory_application`.
- `tests/test_conformance.py`: the matrix of layers that every target of dory has to compute exactly. Subclass
  `KernelConformance` there, too, with `target = "${n.name}"`, once there are kernels of your own.

A kernel refuses in `accepts` what it does not compute exactly: `reject_type` and `reject_weights` of `dory_core.api` look at
storage and at weights of more than 8 bits, which uint8 files have.

The manual of all hooks is docs/plugins.md of dory.
