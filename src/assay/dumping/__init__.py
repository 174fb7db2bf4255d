"""Dump tensors and gradients, and compare them with an earlier run."""
