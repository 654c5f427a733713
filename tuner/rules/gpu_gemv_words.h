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
  Block value;              // says what an element is worth
  ElemType codes;           // as stored
  ElemType made, elements;  // in registers, exactly: codes, and these less their zero points
  bool scaled = false;
  int64_t group = 0;  // 0 where one scale serves all terms of a column
  WeightFormat format = {};

  int64_t in_word() const { return 32 / bits_of(codes); }
  // Whether products of four bytes are summed at once, in integers.
  bool dots() const { return elements == ElemType::i8; }
};

// Nothing where the weight is none of few bits, no register holds its codes less their zero points, or
// the vectors do not run along the terms.
std::optional<GemvWeight> gemv_weight(RuleContext& c, const Block& block, const GpuRoles& roles);

// The operands of C[i, j] += A[i, k] * B[k, j] on their way to a thread, which reads `vector` codes of
// a column at once. B lies in memory as [.., column, k / vector, place], its places by word_map();
// scales and zero points as [.., column, group], so that the lanes of a warp find theirs side by side.
class GemvWords {
 public:
  struct Turn {
    int64_t few, terms;  // to multiples of which vectors and terms are filled up with zeros
    int64_t vector;
  };
  // Stages the operands of `block` and packs the weight.
  GemvWords(RuleContext& c, const Block& block, GpuRoles roles, GemvWeight weight,
            const Turn& turn);

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
  void make_codes(const std::string& packed, int rank);
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
  std::optional<Block>
      made_;  // codes by themselves, where zero points are taken off in another type
};

}  // namespace tilewright
