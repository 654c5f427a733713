"""Parts of scripts/gpu-check."""
