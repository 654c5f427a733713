// GEMV with few-bit weights on a GPU: threads read packed 32-bit registers of codes and unpack them
// into registers of elements.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tuner/rules/gpu/gpu_roles.h"

namespace tilewright {

// The weight of a product that can be read this way.
struct GemvWeight {
  Block value;              // computes the dequantized values
  ElemType codes;           // as stored
  ElemType made, elements;  // exact register types: codes; codes minus zero points
  bool scaled = false;      // scales apply to sums
  // Scales and offsets apply to each element in registers: an offset shares the sums of no codes.
  bool in_place = false;
  int64_t group = 0;  // 0: one scale for the whole k of a column
  WeightFormat format = {};

  int64_t in_word() const { return 32 / bits_of(codes); }
  // Whether integer products of four bytes are summed at once (dp4a).
  bool dots() const { return elements == ElemType::i8; }
};

// Nothing for other weights, if no register type holds the codes minus their zero points exactly,
// or if the vectors are not contiguous along k.
std::optional<GemvWeight> gemv_weight(RuleContext& c, const Block& block, const GpuRoles& roles);

// The operands of C[i, j] += A[i, k] * B[k, j] on their way to a thread. A thread reads `vector`
// codes of a column at once. B lies in memory as [.., column, k / vector, place], with places by
// word_map(). Scales and zero points lie as [.., column, group], so that the lanes of a warp read
// neighbours.
class GemvWords {
 public:
  struct Turn {
    int64_t few, terms;  // vectors and k are zero-padded to multiples of these
    int64_t vector;
  };
  // Stages the operands of `block` and packs the weight.
  GemvWords(RuleContext& c, const Block& block, GpuRoles roles, GemvWeight weight,
            const Turn& turn);

  // The block that writes A to registers.
  Block few() const;
  // The loops of one lane's sums, outermost first: the thread, the lane's turns, the columns, the
  // vectors, and the k elements of a turn.
  struct Loops {
    Loop thread, turns, columns, vectors, terms;
  };
  // Places everything in these loops; `sums` has no init any more. Codes are loaded per turn;
  // elements and group values are made per column. Scales apply to the sums of a turn, or to the
  // total if they serve all of k; beside offsets they apply to elements.
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
  std::string scale_, zero_, offset_;  // names as packed
  Block elements_, codes_;
  std::optional<Block> made_;  // the codes alone, if zero points are subtracted in another type
};

}  // namespace tilewright
