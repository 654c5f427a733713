// `tune-cli bench` in a worker: a kernel for the CPU beside the peers, in turns.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cli/bench/bench_report.h"
#include "kernel/kernel_source.h"

namespace tilewright::cli {

struct BenchKernel {
  std::string object;
  KernelDescription description;
};

struct BenchJob {
  BenchKernel kernel;
  // The untuned default, how long it takes at these sizes by what is stored, or 0 where it has no part.
  std::optional<BenchKernel> untuned = std::nullopt;
  double untuned_seconds = 0;
  std::string workload = {};  // canonical text
  std::string sized = {};     // the same at `dims`, with no range left: what peers take
  std::map<std::string, int64_t> dims = {};
  uint64_t seed = 0;
  int threads = 1;
  int rounds = 1;
};

struct BenchTimes {
  double seconds = 0, default_seconds = 0;
  std::map<std::string, BenchPeer> peers;
  std::map<std::string, std::string> absent;
  std::string disturbed = {};  // what else had the processors in too many rounds; empty: nothing
};

// The peers that a worker finds.
struct BenchPeers {
  std::vector<std::pair<std::string, std::string>> versions;  // names with versions
  std::vector<std::string> problems;                          // plugins that cannot be opened: why
};

std::string to_json(const BenchJob& job);
BenchTimes bench_times_from_json(const std::string& text);
BenchPeers bench_peers_from_json(const std::string& text);

// The worker's side: JobHandlers. handle_bench() opens the peers and runs each once, confines the
// process, and only then loads the kernels: so it serves one job and retires.
std::string handle_bench(const std::string& payload);
std::string handle_peers(const std::string& payload);

}  // namespace tilewright::cli
