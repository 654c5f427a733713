// Grouped GEMM with few-bit weights (`grouped_matmul`: mixture of experts): each block of rows
// looks up its own weight by its group number.
#pragma once

#include <optional>
#include <string>

#include "tuner/rules/gpu/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// The iterators of C[b, i, j] += A[b, i, k] * W[G[b], k, j], a stack of products over b. W holds
/// the dequantized values of the workload's stored weight. Nothing for other blocks.
std::optional<GpuRoles> gpu_grouped_roles(RuleContext& c, const Block& block);

/// Turns such a block into a product of plain stacks: roles.b becomes a copy of W's values for each
/// b, in W's order of dimensions. Returns the block that computes the copy from the stored weight;
/// it replaces W's. Blocks of other stacks keep their `value`.
Block gpu_take_groups(RuleContext& c, const Block& block, GpuRoles& roles, const Block& value);

/// Whether the block looks up an index of the buffer in memory.
bool gpu_looks_up(const RuleContext& c, const Block& block, const std::string& buffer);

/// The name of the codes that a block of weight elements reads, besides zero points and lookup
/// tables.
std::string gpu_codes_of(const RuleContext& c, const Block& elements, const WeightFormat& format);

/// A shared-memory copy of what the block reads of a parameter; of a parameter with a looked-up
/// index, the part that the lookup selects.
Block gpu_read_shared(RuleContext& c, const Block& block, const std::string& buffer);

}  // namespace tilewright
