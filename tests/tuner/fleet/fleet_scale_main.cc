// How a coordinator scales: fleet_scale WORKERS TRIALS SECONDS [MODE]. Simulated devices, each trial of
// which takes SECONDS, try copies of one candidate. Prints the share of the time that they were busy and
// the processor time of the coordinator. Ends with 1 where a trial was lost or counted twice.
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "ir/ops/spec.h"
#include "runtime/machine/timer.h"
#include "tilewright/version.h"
#include "tuner/fleet/fleet.h"
#include "tuner/fleet/fleet_measurer.h"

namespace tilewright {
namespace {

double processor_seconds() {
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) * 1e-6;
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

int scale_main(int argc, char** argv) {
  if (argc < 4) return 2;
  const size_t workers = std::stoul(argv[1]), trials = std::stoul(argv[2]);
  const std::string mode = argc > 4 ? argv[4] : "honest";
  const Target target = Target::parse("native");
  const auto file = std::filesystem::temp_directory_path() / fmt::format("hello_{}", getpid());
  std::ofstream(file) << hello_line(
      hello_of_this_machine(target, target_facts(target), TILEWRIGHT_VERSION));
  const auto device =
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / "fleet_device";
  std::vector<Place> places;
  for (size_t i = 0; i < workers; ++i) {
    places.push_back(
        {fmt::format("device #{}", i + 1), {device.string(), mode, argv[3], file.string()}});
  }
  FleetOptions options;
  options.opening = {TILEWRIGHT_VERSION, "native"};
  options.threads = 1;
  options.crew.restart_seconds = 0.05;
  options.crew.losses = 20;
  const std::atomic<bool> cancelled = false;
  const double started = steady_seconds();
  Fleet fleet = gather_fleet(places, options, cancelled,
                             [](const std::string& line) { fmt::print(stderr, "{}\n", line); });
  const double gathered = steady_seconds();
  const Workload workload = parse_workload("matmul:m=64,n=64,k=64");
  CandidateMaker maker(workload, target, 1);
  Candidate candidate = maker.make_default();
  candidate.is_default = false;
  FleetMeasurer measurer(*fleet.groups[0].crew, target, {});
  std::vector<int> told(trials);
  const double used = processor_seconds();
  const std::vector<Candidate> batch(trials, candidate);
  measurer.measure(workload, batch, {cancelled}, 1e-9,
                   [&](size_t i, const Measurement&) { ++told[i]; });
  const double elapsed = steady_seconds() - gathered;
  const double each = (processor_seconds() - used) / static_cast<double>(trials);
  const double busy =
      std::stod(argv[3]) * static_cast<double>(trials) / (elapsed * static_cast<double>(workers));
  const auto& counts = fleet.groups[0].crew->counts();
  fmt::print(
      "{} workers in {:.1f} s, {} trials in {:.1f} s: busy {:.1f}%, coordinator {:.3f} ms a "
      "trial, {} lost\n",
      fleet.workers, gathered - started, trials, elapsed, 100 * busy, 1e3 * each, counts.lost);
  std::filesystem::remove(file);
  return std::ranges::all_of(told, [](int times) { return times == 1; }) ? 0 : 1;
}

}  // namespace
}  // namespace tilewright

int main(int argc, char** argv) { return tilewright::scale_main(argc, argv); }
