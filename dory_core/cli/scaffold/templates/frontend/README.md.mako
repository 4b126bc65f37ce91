<%text>#</%text> ${n.distribution}

A frontend of dory: ONNX files of the dialect ${n.name}.

    pip install -e ".[test]"
    dory frontends
    dory check net.onnx --frontend ${n.name}
    pytest                                # pytest -m '' adds long sweeps

It reads files whose nodes mean what they say: a layer is a Conv, Gemm, MatMul, pool or Add followed by any of Mul,
Add, Div, Floor and Clip with integer constants. Override methods of `${n.title}Dialect` in
`${n.package}/dialect.py` where your exporter means something else. The manual is docs/plugins.md of dory.

`tests/test_import.py` compares networks with what the exporter computes, and damages their files: add a network for each
operator that means something of its own. `examples/vendor_frontend` of dory is a frontend of a format that is no ONNX.
