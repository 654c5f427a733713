// A database in memory, and what was prepared out of it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "serving/choice.h"
#include "serving/served.h"

namespace tilewright::serving {

class Gpu;

// The request of a tw_prepare.
struct PrepareOptions {
  std::vector<std::string> specs;
  std::map<std::string, std::vector<int64_t>> sizes;  // by the name of a dynamic dimension
  std::string target = "native";
  int device = 0;
  int threads = 0;
  LaunchObserver observer;
  uintptr_t alignment = 256;  // in bytes, of a GPU's operands
  // Loads kernels of a model file, of which it gets the sources, for a CUDA target that is not here: they take the
  // memory of the host. Null: a GPU's driver loads them.
  std::function<std::shared_ptr<const DeviceKernel>(const database::Artifact&)> emulate;
};

// A line of the report.
struct ReportLine {
  std::string spec, sizes, reason, command, kernel, sketch;
  tw_outcome outcome = TW_MISS;
  double seconds = 0;
  int threads = 0;
};

// Immutable. The kernels that it holds stay loaded as long as it lives.
class Prepared {
 public:
  const std::vector<ReportLine>& report() const { return report_; }
  // That its kernels run on; null: they take the memory of the host.
  const std::shared_ptr<const Gpu>& gpu() const { return gpu_; }
  // Allocates nothing when the spec is there. Throws ServingError (miss) when no kernel serves it,
  // (argument) when it was not prepared.
  const Served& find(std::string_view spec) const;

 private:
  friend class Library;

  std::shared_ptr<const Gpu> gpu_;
  std::vector<std::unique_ptr<Served>> served_;
  std::unordered_map<std::string_view, size_t> by_text_;  // of served_, whose texts these are
  std::vector<ReportLine> report_;
};

// Many threads may prepare at once.
class Library {
 public:
  using Log = std::function<void(const std::string& line)>;

  // Throws DatabaseError, TrustError.
  Library(const std::string& path, Log log, database::Trust trust = {})
      : Library(Table::read(path, std::move(trust)), std::move(log)) {}
  Library(Table table, Log log) : table_(std::move(table)), log_(std::move(log)) {}

  // Throws SpecError, ServingError, TargetError.
  std::unique_ptr<Prepared> prepare(const PrepareOptions& options);
  // The first kernel for each of these specs, at its largest sizes. Loads nothing, and logs nothing.
  std::vector<ReportLine> look_up(const PrepareOptions& options,
                                  const std::vector<SpecFacts>& specs);
  // As prepare() of specs about which everything is known; options.specs do not count. One thread at a time, and
  // never beside the other: what it loads runs when all is loaded.
  std::unique_ptr<Prepared> prepare(const PrepareOptions& options,
                                    const std::vector<SpecFacts>& specs);

 private:
  struct Device;  // what kernels are loaded on
  struct Choice;  // the kernels that may serve a box of sizes

  std::unique_ptr<Prepared> prepare(const PrepareOptions& options, const Device& device,
                                    const std::vector<Request>& requests);
  Device device_for(const PrepareOptions& options);
  std::shared_ptr<const Gpu> gpu(int index);
  std::unique_ptr<Served> serve(const Request& request, const PrepareOptions& options,
                                const Device& device, std::vector<ReportLine>& report);
  // Adds kernels for the sizes of the box and says what it found.
  void serve_box(const Request& request, const Choice& choice, const Device& device, Served& served,
                 std::vector<ReportLine>& report);
  std::shared_ptr<const DeviceKernel> load(const StoredKernel& kernel, const Device& device,
                                           std::string_view name);
  void log_once(const ReportLine& line);

  const Table table_;
  const Log log_;
  std::mutex mutex_;  // guards what follows; launches never come here
  std::set<std::string> logged_;
  std::map<int, std::weak_ptr<const Gpu>> gpus_;
  std::map<std::string, std::weak_ptr<const DeviceKernel>> loaded_;  // by device and artifact
};

}  // namespace tilewright::serving
