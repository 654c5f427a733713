// The report of tune-cli bench: kernels and their peers.
#pragma once

#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "database/dispatch.h"
#include "ir/tensor_expr.h"
#include "kernel/target.h"

namespace tilewright::cli {

struct BenchPeer {
  double seconds = 0;
  std::string note = {};   // what computed it, or what it computed where that is not quite the same
  bool reference = false;  // code that is there to be right, not fast
  // Difference of its results from ours: root mean squares, relative to ours. Nothing where a GPU
  // computed both.
  std::optional<double> difference = {};

  // Whether a ratio to it compares two fast ways to compute the same. The limit allows for what
  // activations rounded to 8 bits and scales rounded to 6 bits change, 1 to 2%; a nibble or a group
  // in the wrong place changes tens of percent.
  bool counts() const { return !reference && difference.value_or(0) <= 0.05; }
};

// A kind's time, or what is wrong with its kernel.
struct BenchKind {
  double seconds = 0;
  std::string fault = {};
};

struct BenchRow {
  const Workload* workload = nullptr;
  std::map<std::string, int64_t> sizes = {};  // of its dynamic dimensions
  Workload sized = {};                        // at these, with no range left: what peers can take
  std::string miss = {};                      // the database has no kernel: why
  double seconds = 0, default_seconds = 0;    // 0: not there
  std::map<std::string, BenchPeer> peers = {};
  std::map<std::string, std::string> absent =
      {};                        // peers that do not have the operator, with reasons
  std::string fault = {};        // the kernel is wrong: why
  std::string disturbed = {};    // what else had the processors: no ratio is told; empty: nothing
  std::string passed_over = {};  // why the untuned default serves and not the tuned kernel
  std::string near = {};   // why the kernel is less than what was asked for; empty: it is that
  bool predicted = false;  // chosen by a model, never tuned
  // On a GPU, where they were asked for: the best stored kernel of each kind (cuda_kind).
  std::map<std::string, BenchKind> kinds = {};
  std::optional<database::DispatchRange> range = {};  // of the dispatch table, for the kernel
};

struct BenchReport {
  std::vector<BenchRow> rows;
  std::vector<std::pair<std::string, std::string>> peers;  // names with versions

  bool any_wrong() const;
};

nlohmann::ordered_json json_of(const BenchReport& report, const Target& target, int threads);
// On standard output.
void print_table(const BenchReport& report, const Target& target, int threads);

}  // namespace tilewright::cli
