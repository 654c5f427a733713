#include "cli/db/rebuild.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>

#include "cli/line/interrupt.h"
#include "cli/lookup.h"
#include "tilewright/version.h"
#include "tuner/search/rebuild.h"

namespace tilewright::cli {

nlohmann::ordered_json rebuild_kernels(const CommonOptions& options, database::Store& store) {
  const std::atomic<bool>& interrupted = catch_interrupts();
  const Target target = Target::parse("native");
  const database::TargetIdentity identity = target_identity(target);
  std::set<int> threads;
  for (const database::Record& r :
       store.records({.target_hash = identity.hash, .verdict = database::Verdict::Valid}).records) {
    threads.insert(r.threads);
  }
  RebuildReport all;
  for (int count : threads) {
    MeasureOptions measure;
    measure.threads = count;
    LocalMeasurer measurer(worker_command(), target, measure);
    RebuildReport r =
        rebuild(target, identity, count, TILEWRIGHT_VERSION, store, measurer, interrupted);
    all.rebuilt += r.rebuilt;
    all.failed += r.failed;
    all.skipped += r.skipped;
    all.tables += r.tables;
    all.reasons.insert(all.reasons.end(), r.reasons.begin(), r.reasons.end());
  }
  for (const std::string& reason : all.reasons) note(options, "not rebuilt: " + reason);
  return {{"kernels", all.rebuilt},
          {"failed", all.failed},
          {"skipped", all.skipped},
          {"dispatch", all.tables}};
}

}  // namespace tilewright::cli
