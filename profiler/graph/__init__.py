"""Structure of models: loading, normalising, fused units, and what a real run shows. Needs onnx."""
