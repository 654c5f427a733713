"""Attention as products and a softmax, which Tilewright's passes make one kernel of.

The exporter's own spelling joins batch and heads to one axis, and so needs all sizes of both.
"""
from __future__ import annotations

import math
from typing import Any

import torch


def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor,
              attn_mask: torch.Tensor | None = None, dropout_p: float = 0.0, is_causal: bool = False,
              scale: float | None = None, enable_gqa: bool = False) -> torch.Tensor:
    """torch.nn.functional.scaled_dot_product_attention without dropout."""
    if dropout_p != 0:
        return torch.nn.functional.scaled_dot_product_attention(
            query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
    if enable_gqa and key.shape[-3] != query.shape[-3]:
        key, value = (_repeat(given, query.shape[-3] // given.shape[-3]) for given in (key, value))
    scores = query @ key.transpose(-2, -1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)
    if is_causal:
        rows = torch.arange(query.shape[-2]).unsqueeze(1)
        scores = torch.where(torch.arange(key.shape[-2]).unsqueeze(0) <= rows, scores, -math.inf)
    if attn_mask is not None and attn_mask.dtype == torch.bool:
        scores = torch.where(attn_mask, scores, -math.inf)
    elif attn_mask is not None:
        scores = scores + attn_mask
    return torch.softmax(scores, -1) @ value


def _repeat(heads: torch.Tensor, times: int) -> torch.Tensor:
    """Each head for as many heads of queries."""
    *batch, count, length, width = heads.shape
    return heads.unsqueeze(-3).expand(*batch, count, times, length, width).reshape(
        *batch, count * times, length, width)


def respell(node: Any) -> None:
    """Attention of a graph in this spelling."""
    if node.op == "call_function" and node.target is torch.nn.functional.scaled_dot_product_attention:
        node.target = attention
