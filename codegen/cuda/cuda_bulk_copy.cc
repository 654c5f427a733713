#include "codegen/cuda/cuda_bulk_copy.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "codegen/loop_nest.h"
#include "ir/compare.h"
#include "ir/visitor.h"

namespace tilewright {
namespace {

constexpr int64_t kUnitBits = 16 * 8;
constexpr int64_t kMostCopies = 64;  // per tile; beyond that, threads copy better

bool begins_at_units(const Expr& place, int bits, Analyzer& known) {
  return known.prove(eq(floormod(place * Expr(bits), Expr(kUnitBits)), Expr(0)));
}

}  // namespace

Stretch find_stretch(const std::vector<const ForNode*>& loops, const LoadNode& from,
                     const LoadNode& to, Analyzer& known) {
  const int bits = bits_of(from.buffer->elem);
  Expr source = flat_index(from.buffer, from.indices), target = flat_index(to.buffer, to.indices);
  Stretch found{1, {}, loops, {}};
  auto continues = [&](const ForNode* loop) {
    return *as_int(loop->extent) > 1 && step_along(source, *loop, known) == found.elements &&
           step_along(target, *loop, known) == found.elements;
  };
  for (auto next = found.repeats.end();;) {
    next = std::find_if(found.repeats.begin(), found.repeats.end(), continues);
    if (next == found.repeats.end()) break;
    found.elements *= *as_int((*next)->extent);
    found.along.push_back(*next);
    found.repeats.erase(next);
  }
  std::erase_if(found.repeats, [](const ForNode* loop) { return is_int(loop->extent, 1); });
  int64_t copies = 1;
  for (const ForNode* loop : found.repeats) copies *= *as_int(loop->extent);
  auto fail = [&](std::string problem) { return Stretch{0, {}, {}, std::move(problem)}; };
  if (found.elements * bits % kUnitBits != 0) {
    return fail(
        fmt::format("{} elements of '{}' lie side by side in both memories, {} bits; bulk "
                    "copies move multiples of 16 bytes",
                    found.elements, from.buffer->name, found.elements * bits));
  }
  if (copies > kMostCopies) {
    return fail(
        fmt::format("'{}' has runs of {} contiguous elements, which would take {} copies; at most "
                    "{} are allowed",
                    from.buffer->name, found.elements, copies, kMostCopies));
  }
  for (const ForNode* loop : found.along) {
    source = in_iteration(source, *loop, 0);
    target = in_iteration(target, *loop, 0);
  }
  for (const auto& [place, buffer] : {std::pair{source, from.buffer}, {target, to.buffer}}) {
    if (begins_at_units(place, bits, known)) continue;
    return fail(fmt::format("a copy of '{}' does not always begin at a multiple of 16 bytes",
                            buffer->name));
  }
  return found;
}

}  // namespace tilewright
