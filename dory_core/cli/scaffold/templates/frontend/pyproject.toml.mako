[build-system]
requires = ["setuptools>=64"]
build-backend = "setuptools.build_meta"

[project]
name = "${n.distribution}"
version = "0.1.0"
description = "dory frontend: ${n.name}"
readme = "README.md"
requires-python = ">=3.11"
dependencies = ["${n.requirement('dory-core')}", "${n.requirement('dory-onnx')}"]

[project.optional-dependencies]
test = ["pytest>=7.4"]

[project.entry-points.dory]
${n.name} = "${n.package}"

[tool.setuptools.packages.find]
include = ["${n.package}", "${n.package}.*"]

[tool.pytest.ini_options]
addopts = "-m 'not slow'"
markers = ["slow: long sweeps of the conformance kit (pytest -m '' runs them, too)"]
