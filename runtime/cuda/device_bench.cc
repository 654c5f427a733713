#include "runtime/cuda/device_bench.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "ir/knobs.h"
#include "runtime/error.h"
#include "runtime/worker.h"

namespace tilewright::cuda {
namespace {

constexpr int64_t kGuardBytes = 4096;  // before and behind each array
constexpr unsigned char kGuard = 0xa5;

int64_t rounded(int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

DeviceOperands::DeviceOperands(Device& device, OperandSet& host) : device_(device), host_(host) {
  for (const OperandInfo& info : host.infos()) {
    HostArray& array = host.at(info.name);
    auto& on_device = arrays_[info.name];
    on_device = std::make_unique<DeviceArray>(device, rounded(array.bytes()) + 2 * kGuardBytes);
    if (info.role == ParamRole::Output) continue;
    std::vector<unsigned char> image(static_cast<size_t>(on_device->bytes()), kGuard);
    std::memcpy(image.data() + kGuardBytes, array.data(), static_cast<size_t>(array.bytes()));
    on_device->upload(image.data());
  }
}

std::vector<DeviceAddress> DeviceOperands::addresses(const std::vector<KernelParam>& params) const {
  std::vector<DeviceAddress> list;
  for (const KernelParam& p : params) {
    auto it = arrays_.find(p.name);
    if (it == arrays_.end()) {
      throw KernelError(fmt::format("kernel parameter '{}' is no operand of the workload", p.name));
    }
    list.push_back(it->second->address() + kGuardBytes);
  }
  return list;
}

void DeviceOperands::run_once(DeviceProgram& program, HostArray::Poison poison) {
  HostArray& output = host_.output();
  DeviceArray& on_device = *arrays_.at(output.name());
  output.poison(poison);
  std::vector<unsigned char> image(static_cast<size_t>(on_device.bytes()), kGuard);
  const auto bytes = static_cast<size_t>(output.bytes());
  std::memcpy(image.data() + kGuardBytes, output.data(), bytes);
  on_device.upload(image.data());
  program.launch();
  device_.wait("running the kernel");
  on_device.download(image.data());
  std::memcpy(output.data(), image.data() + kGuardBytes, bytes);
  auto begin = image.begin(), after = image.begin() + kGuardBytes + output.bytes();
  auto is_guard = [](unsigned char c) { return c == kGuard; };
  wrote_beside_ = !std::all_of(begin, begin + kGuardBytes, is_guard) ||
                  !std::all_of(after, image.end(), is_guard);
}

Device& DeviceBench::device() {
  if (!device_) {
    try {
      device_ = std::make_unique<Device>(0, knob_text(Knob::CudaDriver));
    } catch (const DeviceError& e) {
      throw ToolchainError(e.what());  // says nothing of the candidate
    }
  }
  return *device_;
}

void DeviceBench::prepare(const MeasureJob& job, const WorkloadParser& parse) {
  std::string key = fmt::format("{} {} {}", job.seed, job.samples, job.workload);
  if (workload_ && key == key_) return;
  points_.clear();  // before the new ones take their memory
  workload_ = std::make_unique<Workload>(parse(job.workload));
  key_ = key;
}

DeviceBench::Point& DeviceBench::at(const Dims& dims, const MeasureJob& job) {
  Point& point = points_[dims];
  if (point.operands) return point;
  point.host = std::make_unique<OperandSet>(operands_of(*workload_, dims), job.seed);
  Oracle oracle(*workload_, seeded_readers(point.host->infos(), job.seed), dims);
  point.reference = make_reference(point.host->output().shape(), job.samples, job.seed,
                                   [&](int64_t i) { return oracle.at(i); });
  point.operands = std::make_unique<DeviceOperands>(device(), *point.host);
  return point;
}

// Right is what writes every element, nothing beside them, and the sampled ones within their bounds.
void DeviceBench::prove(const MeasureJob& job, const CudaDescription& description, const Dims& dims,
                        MeasureResult& result) {
  Point& point = at(dims, job);
  DeviceProgram program(device(), job.object, description,
                        point.operands->addresses(description.source.params),
                        dim_values(*workload_, dims));
  HostArray& output = point.host->output();
  using enum HostArray::Poison;
  point.operands->run_once(program, First);
  std::vector<bool> left = output.poison_map(First);
  bool is_open = std::find(left.begin(), left.end(), true) != left.end();
  if (is_open && !output.poison_is_proof()) {
    point.operands->run_once(program, Second);
    std::vector<bool> again = output.poison_map(Second);
    for (size_t i = 0; i < left.size(); ++i) left[i] = left[i] && again[i];
  }
  auto unwritten = std::find(left.begin(), left.end(), true);
  if (point.operands->wrote_beside()) {
    result.verdict = Verdict::OutOfBounds;
    result.message = fmt::format("the kernel writes beside its output '{}'", output.name());
  } else if (unwritten != left.end()) {
    result.verdict = Verdict::Wrong;
    result.wrong_index = unwritten - left.begin();
    result.message = fmt::format("{}{} was not written", output.name(),
                                 subscripts(output.shape(), result.wrong_index));
  } else {
    CheckResult check = compare(output, point.reference);
    result.verdict = check.verdict;
    result.message = check.message;
    result.wrong_index = check.index;
    result.max_rel_error = std::max(result.max_rel_error, check.max_rel_error);
    result.compared += check.compared;
  }
  if (result.verdict == Verdict::Ok || dims == job.dims) return;
  result.message += " at";
  for (const auto& [name, value] : dims) result.message += fmt::format(" {} = {}", name, value);
}

// Each run by itself between two events of the device, with nothing of it in L2 before.
Timing DeviceBench::time(const MeasureJob& job, const CudaDescription& description) {
  Point& point = at(job.dims, job);
  DeviceProgram program(device(), job.object, description,
                        point.operands->addresses(description.source.params),
                        dim_values(*workload_, job.dims));
  double seconds = 0;
  auto run = [&] {
    device().flush_l2();
    device().wait("flushing the L2 cache");
    seconds += device().milliseconds("timing the kernel", [&] { program.launch(); }) * 1e-3;
  };
  TimingOptions options = job.timing;
  options.cache = CacheState::Warm;  // the processor's caches play no part
  Timing timing = tilewright::measure(run, options, [&] { return seconds; });
  timing.cache = CacheState::Cold;
  return timing;
}

MeasureResult DeviceBench::measure(const MeasureJob& job, const WorkloadParser& parse) {
  MeasureResult result;
  device();
  try {
    CudaDescription description = CudaDescription::from_json(job.cuda);
    prepare(job, parse);
    std::vector<Dims> places = {job.dims};
    if (job.check) {
      for (const Dims& dims : check_points(*workload_)) {
        if (dims != job.dims) places.push_back(dims);
      }
    }
    for (const Dims& dims : places) {
      if (job.check && result.verdict == Verdict::Ok) prove(job, description, dims, result);
    }
    if (job.time && result.verdict == Verdict::Ok) result.timing = time(job, description);
  } catch (const DeviceError& e) {
    retire_worker();  // the context is lost with the kernel
    result.verdict = Verdict::Runtime;
    result.message = e.what();
  } catch (const KernelError& e) {
    result.verdict = Verdict::Runtime;
    result.message = e.what();
  }
  if (result.verdict == Verdict::OutOfBounds) retire_worker();
  return result;
}

}  // namespace tilewright::cuda
