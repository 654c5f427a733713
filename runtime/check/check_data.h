// Operands and right values that the candidates of one workload share in their checks.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runtime/check/reference.h"
#include "runtime/tensor/operands.h"
#include "runtime/thread_pool.h"

namespace tilewright {

// Sets of operands and right values at the sizes of one workload, of one seed. Everything is made when
// first asked for, and kept. Sizes other than the first share its weights.
class CheckData {
 public:
  using Dims = std::map<std::string, int64_t>;

  CheckData(Workload workload, Dims dims, uint64_t seed);

  const Workload& workload() const { return workload_; }
  const Dims& dims() const { return dims_; }
  uint64_t seed() const { return seed_; }

  // Ordinary values. The timed set begins after protected pages, at huge pages' edges where it is
  // large. The fenced one ends before protected pages and shares its weights.
  OperandSet& timed(const Dims& dims);
  OperandSet& fenced(const Dims& dims);
  // Hard values before protected pages.
  OperandSet& hard(const Dims& dims);
  // The weights of hard() with the arrays of timed() for the rest, at the first sizes.
  OperandSet& changed();

  // The right values of fenced() or hard(). Processors that nobody has claimed help to make them where
  // the pool has fewer.
  const Reference& right(const Dims& dims, ValueKind kind, int samples, ThreadPool& pool);

  // Other draws of hard values, since few lines and lengths do not take every turn in one, and one of
  // ordinary values in which all lengths are the longest. There are some where running and checking
  // one of them takes a moment.
  struct Draw {
    std::unique_ptr<OperandSet> operands;
    Reference reference;
  };
  const std::vector<Draw>& draws();
  static constexpr double kDrawSeconds = 0.002;

  // Forgets the sizes that were asked for the fewest times, until the rest is no more than a worker can
  // spare. The first ones stay. Each candidate asks for its sizes in the same order: where they do not
  // all fit, forgetting those asked for the longest ago would forget each one before its next turn.
  void keep_within_limits();
  // The sizes of which something is kept.
  std::vector<Dims> sizes_kept() const;

 private:
  // Right values of one kind.
  struct Truth {
    Reference reference;
    int samples = -1;  // that it was made for
  };
  struct Point {
    std::unique_ptr<OperandSet> timed, fenced, hard, changed;
    Truth ordinary_truth, hard_truth;
  };

  Point& point(const Dims& dims);
  std::vector<Draw> make_draws();
  static std::optional<std::vector<OperandInfo>> at_full_length(std::vector<OperandInfo> infos);
  static std::vector<std::vector<OperandInfo>> swept(const std::vector<OperandInfo>& infos);
  // Bytes of memory and of address space for what other points do not share.
  struct Footprint {
    double bytes = 0, mapped = 0;
  };
  static Footprint footprint_of(const Point& point);
  Reference compute(OperandSet& operands, const Dims& dims, int samples, ThreadPool& pool) const;

  Workload workload_;
  Dims dims_;
  uint64_t seed_;
  bool rows_apart_;
  std::map<Dims, Point> points_;
  std::map<Dims, uint64_t> asked_;  // how many times, also for sizes that are forgotten
  std::vector<Draw> draws_;
  bool drawn_ = false;
};

}  // namespace tilewright
