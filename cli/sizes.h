// The sizes at which a kernel for ranges of sizes is run: `--dim m=16`.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "ir/tensor_expr.h"

namespace CLI {
class App;
}

namespace tilewright::cli {

class Sizes {
 public:
  // Adds the option `--dim NAME=SIZE`, which may be given for several dimensions.
  void add_to(CLI::App& app);

  // Throws UsageError for what is no NAME=SIZE, for a name that is no dynamic dimension of any of
  // the workloads, and for a size outside the range of one that has it.
  void require_known(const std::vector<Workload>& workloads) const;

  // The size of each of the workload's dynamic dimensions: the given one, or else the largest.
  std::map<std::string, int64_t> of(const Workload& workload) const;

 private:
  std::vector<std::string> given_;
};

}  // namespace tilewright::cli
