// Products with weights of few bits of which each block of rows looks its own up, by the number of its
// group (`grouped_matmul`: a mixture of experts).
#pragma once

#include <optional>
#include <string>

#include "tuner/rules/gpu_roles.h"
#include "tuner/rules/rules.h"

namespace tilewright {

/// The iterators of C[b, i, j] += A[b, i, k] * W[G[b], k, j], where W is what the elements of the
/// workload's stored weight are worth: a stack of products over b. Nothing for other blocks.
std::optional<GpuRoles> gpu_grouped_roles(RuleContext& c, const Block& block);

/// Makes such a block a product of stacks as they lie: roles.b becomes a copy of what W is worth for each
/// b, in the order of W's dimensions. The block that makes it of what is stored, in place of W. Blocks of
/// other stacks keep the one that they have, `value`.
Block gpu_take_groups(RuleContext& c, const Block& block, GpuRoles& roles, const Block& value);

/// Whether the block looks an index of the buffer up in memory.
bool gpu_looks_up(const RuleContext& c, const Block& block, const std::string& buffer);

/// The codes among what the block of a weight's elements reads, beside zero points and what is looked up.
std::string gpu_codes_of(const RuleContext& c, const Block& elements, const WeightFormat& format);

/// A copy in shared memory of what the block reads of a parameter: of one that it looks up, what it finds.
Block gpu_read_shared(RuleContext& c, const Block& block, const std::string& buffer);

}  // namespace tilewright
