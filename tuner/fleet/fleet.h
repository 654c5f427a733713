// A fleet: workers on many machines, in crews of machines that are alike.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "database/record.h"
#include "tuner/fleet/crew.h"

namespace tilewright {

// One crew, with what its machines have in common.
struct FleetGroup {
  database::TargetIdentity identity;
  Target target;
  int threads = 1;  // of kernels
  std::unique_ptr<Crew> crew;
};

struct FleetOptions {
  Opening opening;
  int threads = 0;  // of kernels; 0: the cores that each worker of the group has to itself
  double hello_seconds = 300;  // until all have said hello: batch systems let jobs wait
  CrewOptions crew = {};
};

struct Fleet {
  std::vector<FleetGroup> groups;           // at least one, by identity
  std::vector<CrewCounts::Dropped> absent;  // workers that never began
  size_t workers = 0;                       // that did
};

// Starts a worker at each place and waits for their hellos; `waits` is told now and then for how many
// still. Throws FleetError when none says hello. Nothing when cancelled.
Fleet gather_fleet(const std::vector<Place>& places, const FleetOptions& options,
                   const std::atomic<bool>& cancelled,
                   const std::function<void(const std::string&)>& waits);

}  // namespace tilewright
