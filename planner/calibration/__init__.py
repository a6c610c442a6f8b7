"""Engine constants from measured runs: fit, cross-validation, intervals, and validation of predictions."""
