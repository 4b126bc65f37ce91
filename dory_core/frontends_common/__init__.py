"""What all ONNX dialects share: shapes, constants, chains of arithmetic, import of layers."""
