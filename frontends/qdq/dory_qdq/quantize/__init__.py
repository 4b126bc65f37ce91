"""``dory quantize``: from a float ONNX network and samples to a QDQ network.

onnxruntime's static quantiser does the work. What is added here: checks of the model and of the
samples, the preparation that it needs, choices that a target likes, and a report.
"""
