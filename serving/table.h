// The part of a database that a serving process keeps in memory: for each workload the kernels that
// this machine can run. Never changes after it was read.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "database/record.h"
#include "database/trust/trust.h"
#include "ir/ops/spec.h"

namespace tilewright::database {
class Store;
}

namespace tilewright::serving {

// A kernel with its artifact.
struct StoredKernel {
  database::TargetIdentity target;
  int threads = 1;
  std::string sketch;
  double seconds = 0;       // median; 0: not known
  bool is_default = false;  // generated, not chosen by a search
  bool offline = false;     // ranked by a model, never measured
  bool compared = false;    // won in turns with other kernels
  std::string passed_over;  // why a better one does not serve, or ""
  std::string artifact_hash, workload_hash;
  std::string flags;          // of the compiler
  int64_t code_checksum = 0;  // where the artifact is read later
  std::shared_ptr<const database::Artifact>
      artifact;  // without its source; null: read when it is used
};

// Which kernel runs at which sizes of a workload's dynamic dimensions, learnt by measuring or, of
// kernels that are `offline`, from what a model says.
struct StoredRanges {
  struct Range {
    std::map<std::string, DimSize> sizes;  // by the name of the dimension
    StoredKernel kernel;
    std::vector<std::pair<database::Sizes, double>> measured;  // seconds at some of these sizes
  };
  database::TargetIdentity target;
  int threads = 1;
  bool offline = false;
  bool one_order = false;     // a row's bits do not depend on how many rows there are
  std::vector<Range> ranges;  // no two of them hold the same sizes
};

struct StoredWorkload {
  std::string hash;
  std::string canonical;  // out of a model file's index: empty for fixed sizes
  // With dynamic dimensions: the spec, which may serve others. Empty for fixed sizes: a model has
  // hundreds of workloads, and parsing them all takes longer than loading their kernels.
  Spec spec;
  // The best of each target and number of threads, and defaults; the fastest first.
  std::vector<StoredKernel> kernels;
  std::vector<StoredRanges> ranges;
  // Targets that it was tuned for, of machines whose kernels do not run here, too.
  std::vector<database::TargetIdentity> targets;
  int64_t failures = 0;  // candidates that were tried where none was valid
  // Why no kernel that is kept for a target, by its hash, could be read or may run.
  std::map<std::string, std::string> troubles;

  // Its inline form.
  std::string text() const {
    return canonical.empty() ? hash : spec_to_inline(parse_spec(canonical));
  }
};

using StoredWorkloads = std::map<std::string, StoredWorkload>;  // by hash

class Table {
 public:
  // Throws DatabaseError, TrustError. Rows that are damaged, and kernels that must not run, are
  // passed over.
  static Table read(const std::string& path, database::Trust trust = {});

  // The workloads with the kernels of all machines, without their code.
  static StoredWorkloads all_of(const database::Store& store);
  // A model file's. Kernels are read when they are used, by one thread at a time.
  Table(std::shared_ptr<const database::Store> model, StoredWorkloads workloads);

  const std::string& path() const { return path_; }
  // Why others may decide the file's content; empty when it is trusted.
  const std::string& distrust() const { return distrust_; }
  // Whether the file was written for serving, and nothing is tuned into it.
  bool is_serving_file() const { return serving_; }
  // Whether it is a whole model.
  bool is_model() const { return model_; }
  // Null for a workload that the database does not hold.
  const StoredWorkload* find(const std::string& hash) const;
  // Workloads of the same operator with the same keys that have a dynamic dimension, in a fixed
  // order: those that may serve other sizes.
  std::vector<const StoredWorkload*> dynamic(const std::string& op) const;
  // Whether any workload has a dynamic dimension.
  bool has_dynamic() const { return dynamic_; }
  // The kernel's code. Throws KernelError where it cannot be read or must not run here.
  std::shared_ptr<const database::Artifact> artifact(const StoredKernel& kernel) const;
  // The same with its source, out of a model file.
  std::shared_ptr<const database::Artifact> artifact_with_source(const StoredKernel& kernel) const;

 private:
  Table() = default;

  std::string path_, distrust_;
  bool serving_ = false, model_ = false, dynamic_ = false;
  StoredWorkloads workloads_;
  std::shared_ptr<const database::Store> store_;        // of a model file
  mutable std::map<std::string, std::string> lacking_;  // by the flags of its kernels
};

}  // namespace tilewright::serving
