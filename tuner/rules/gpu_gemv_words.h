// Weights of few bits beside a few vectors on a GPU: threads read words of codes and make registers of
// elements of them.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/rules/gpu_roles.h"

namespace tilewright {

// The weight of a product that threads may read so.
struct GemvWeight {
  Block value;               // says what an element is worth
  ElemType codes, elements;  // as stored, and as in registers, where every difference is exact
  bool dots;                 // products of four bytes are summed at once, in integers
  bool scaled;
  int64_t group;  // 0 where one scale serves all terms of a column
  WeightFormat format;

  int64_t in_word() const { return 32 / bits_of(codes); }
};

// Nothing where the weight is none of few bits, its zero points are no integers, or the vectors do not
// run along the terms.
std::optional<GemvWeight> gemv_weight(RuleContext& c, const Block& block, const GpuRoles& roles);

// The operands of C[i, j] += A[i, k] * B[k, j] on their way to a thread, which reads `vector` codes of
// a column at once. B lies in memory as [column, k / vector, place], its places by word_map();
// scales and zero points as [column, group], so that the lanes of a warp find theirs side by side.
class GemvWords {
 public:
  // Stages the operands of `block`, whose terms are filled up with zeros to a multiple of `terms`, and
  // packs the weight.
  GemvWords(RuleContext& c, const Block& block, GpuRoles roles, GemvWeight weight, int64_t vector,
            int64_t terms);

  // What writes A to registers.
  Block few() const;
  const std::string& few_name() const { return roles_.a; }
  // The loops of the sums of one lane, outermost first: over the lane's turns, the columns, the vectors
  // and the terms of a turn.
  struct Loops {
    Loop thread, turns, columns, vectors, terms;
  };
  // In these, of which `sums` has no init any more: codes come to registers a turn, elements and what
  // a group shares a column; scales are applied to the sums of a turn, or of all where they serve all.
  void place(const Block& sums, const Loops& loops);

 private:
  void pack();
  void unpack(const Loop& columns);
  void scale(const Block& sums, const Loops& loops);
  void copy_shared_by_group(const Block& reader, const std::string& buffer, const Loop& columns);
  std::vector<Loop> behind(const Block& block, const Loop& loop) const;

  RuleContext& c_;
  GpuRoles roles_;
  GemvWeight w_;
  int64_t vector_;
  bool padded_;
  std::string scale_, zero_;  // as they are packed
  Block elements_, codes_;
};

}  // namespace tilewright
