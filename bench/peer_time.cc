// peer-time: times peers alone, with no tuner: a check of the peers themselves.
//   peer-time THREADS '{"op": "matmul", "m": 512, "n": 512, "k": 512}'…
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "bench/peers/naive.h"
#include "runtime/peers/peer_library.h"

namespace {

using Clock = std::chrono::steady_clock;
using tilewright::PeerLibrary;
using tilewright::PeerProblem;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// The median of single runs over a fifth of a second, after warming up.
double median_seconds(PeerProblem& problem) {
  for (auto start = Clock::now(); seconds_since(start) < 0.05;) problem.run();
  std::vector<double> samples;
  for (auto start = Clock::now(); seconds_since(start) < 0.2 || samples.size() < 5;) {
    const auto begin = Clock::now();
    problem.run();
    samples.push_back(seconds_since(begin));
  }
  std::nth_element(samples.begin(), samples.begin() + samples.size() / 2, samples.end());
  return samples[samples.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: peer-time THREADS SPEC_JSON...\n");
    return 2;
  }
  std::vector<std::string> problems;
  const auto libraries = PeerLibrary::discover(PeerLibrary::default_search_path(), problems);
  for (const std::string& problem : problems) std::fprintf(stderr, "%s\n", problem.c_str());
  for (int i = 2; i < argc; ++i) {
    auto inputs = tilewright::peers::naive_case(nlohmann::json::parse(argv[i]));
    std::printf("%s\n", argv[i]);
    for (const PeerLibrary& library : libraries) {
      std::string reason;
      auto problem = library.prepare(argv[i], std::atoi(argv[1]), inputs.for_peer(), reason);
      const std::string title = std::string(library.name()) + " " + std::string(library.version());
      if (problem == nullptr) {
        std::printf("  %-32s %s\n", title.c_str(), reason.c_str());
        continue;
      }
      std::printf("  %-32s %10.1f us\n", title.c_str(), median_seconds(*problem) * 1e6);
      library.quiesce();
    }
  }
}
