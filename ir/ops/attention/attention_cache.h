// Keys and values of attention as they are stored: in pages, and in codes of a few bits.
#pragma once

#include <optional>
#include <string>

#include "ir/ops/workload_builder.h"

namespace tilewright::ops {

// Keys (or values) of each sequence in order, [batch, kv_heads, n, d]. This is an operand of that
// shape, or a stage that looks them up page by page, turns codes into numbers, or does both. A page
// number out of range reads the first or the last page, so no number can read past the cache.
class Cache {
 public:
  Cache(WorkloadBuilder& b, const Expr& batch, const Expr& n);

  // Declares the operand `name`, and its scales and zero points.
  struct Operand {
    Buffer codes, scale, zero;  // undefined where there are none
    int64_t group = 0;          // elements that share a scale
    bool is_one_group = false;
  };
  Operand operand(const std::string& name, int64_t d);
  // Declares the table of pages. Comes after the operands.
  void declare_table();
  Buffer in_order(const Operand& operand);

 private:
  bool is_paged() const { return page_ > 0; }
  Buffer stored(const std::string& name, ElemType elem, const Expr& last);
  Expr element(const Operand& operand, const Point& row, const Expr& k) const;

  WorkloadBuilder& b_;
  Expr kv_heads_, batch_, n_;
  int64_t page_ = 0, pages_ = 0;
  Buffer table_;
};

// Checks the `page` and `kv` keys against each other, and fills in those that depend on others.
void normalize_cache(Spec& spec);
std::vector<KeyDef> cache_keys();

}  // namespace tilewright::ops
