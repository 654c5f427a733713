// Nodes that only move elements go away: their readers take the elements where they stood before.
#pragma once

#include <optional>
#include <vector>

#include "graph/statements.h"

namespace tilewright::graph {

// The indices of the same element in an array of another shape, both row-major. Nothing where axes of both
// overlap in part.
std::optional<std::vector<ops::Syntax>> reshaped(const std::vector<ops::Syntax>& at,
                                                 const Shape& from, const Shape& to);

// Each element of the output as one expression of reads of the inputs, where all stages are functions.
std::optional<ops::Syntax> value_of(const Text& text);

// The node that makes each value; nothing for inputs and constants.
std::vector<std::optional<size_t>> makers_of(const Graph& graph);

// Transpositions, slices and repetitions go into the indices of their readers. Before -> after:
//   "t": f32[1, 2, 128, 64] = "expr:… Y[b, h, s, e] = X[b, s, h, e]" (X="x")
//   "y": f32[1, 2, 128, 64] = "expr:… Y[b, h, s, e] = X[0, h, s, e] * Z[s, e]" (X="t", Z="z")
//   "y": f32[1, 2, 128, 64] = "expr:… Y[b, h, s, e] = X[0, s, h, e] * Z[s, e]" (X="x", Z="z")
// A reader takes a move where its indices become sums of its own indices and quotients. A reduction takes
// it where the index along the contiguous axis stays the same, or where it is attention, whose kernels copy
// what they read; a function takes any that nothing else reads. A function reads a function that nothing
// else reads in the same way, where that computes no costly element twice. All stages are of f32. Elements
// keep their values. Returns the number of operands that changed.
int fold_moves(Graph* graph);

}  // namespace tilewright::graph
