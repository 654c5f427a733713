#include "cli/run/run_job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/base64.h"
#include "base/files.h"
#include "cli/kernel_worker.h"
#include "cli/run/run_check.h"
#include "cli/run/run_gpu.h"
#include "runtime/check/check.h"
#include "runtime/error.h"

namespace tilewright::cli {
namespace {

using SortedJson = nlohmann::json;

constexpr double kAnyTime = 1e7;  // seconds: the caller's own data may be any size

// The operands lie in a file without a name that both processes have open, one behind the other in
// their order.
void put(int file, HostArray& array) {
  if (write_all(file,
                {static_cast<const char*>(array.data()), static_cast<size_t>(array.bytes())})) {
    return;
  }
  throw MemoryError(fmt::format("operand '{}': no memory to hand over {} bytes: {}", array.name(),
                                array.bytes(), std::strerror(errno)));
}

void take(int file, HostArray& array) {
  auto* at = static_cast<char*>(array.data());
  for (int64_t left = array.bytes(); left > 0;) {
    ssize_t got = read(file, at, static_cast<size_t>(left));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) throw Error(fmt::format("operand '{}' was not handed over whole", array.name()));
    at += got;
    left -= got;
  }
}

// Calls `move` with the inputs, then leaves the file where the output stands.
void move_inputs(int file, OperandSet& operands, void (*move)(int, HostArray&)) {
  lseek(file, 0, SEEK_SET);
  for (const OperandInfo& info : operands.infos()) {
    if (info.role != ParamRole::Output) move(file, operands.at(info.name));
  }
}

SortedJson to_json(const Workload& w, const RunJob& job, int file) {
  SortedJson j = {{"on", static_cast<int>(job.on)}, {"object", to_base64(job.object)},
                  {"workload", w.canonical},        {"dims", job.dims},
                  {"threads", job.threads},         {"file", file}};
  if (job.on == RunJob::On::Cpu) {
    j["description"] = job.description.to_json();
  } else {
    j["cuda"] = job.cuda.to_json();
    j["text"] = job.cuda.source.text;
    j["target"] = job.target;
  }
  return j;
}

std::string bytes_of(const SortedJson& j) {
  std::optional<std::string> bytes = from_base64(j.get<std::string>());
  if (!bytes) throw Error("the kernel of a run is no base64");
  return std::move(*bytes);
}

RunResult run_cpu(const Workload& w, const SortedJson& j, OperandSet& operands) {
  Kernel kernel(bytes_of(j.at("object")),
                KernelDescription::from_json(j.at("description").get<std::string>()));
  ThreadPool pool(j.at("threads").get<int>());
  BoundKernel bound(kernel, operands, dim_values(w, j.at("dims")), pool);
  operands.output().poison();
  bound.run();
  if (auto fault = bound.guard_fault()) return {fault->message};
  return {unwritten_element(operands.output())};
}

RunResult run_cuda(const Workload& w, const SortedJson& j, OperandSet& operands) {
  GpuKernel kernel;
  kernel.description = CudaDescription::from_json(j.at("cuda").get<std::string>());
  j.at("text").get_to(kernel.description.source.text);
  kernel.cubin = bytes_of(j.at("object"));
  const std::map<std::string, int64_t> dims = j.at("dims");
  const bool emulated = j.at("on") == static_cast<int>(RunJob::On::Emulator);
  GpuRunReport report =
      emulated
          ? run_in_emulator(w, kernel, operands, dims)
          : run_on_gpu(w, kernel, Target::parse(j.at("target").get<std::string>()), operands, dims);
  return {report.fault, report.counters};
}

}  // namespace

std::string handle_run(const std::string& payload) {
  const SortedJson j = SortedJson::parse(payload);
  const Workload w = parse_workload(j.at("workload").get<std::string>());
  const int file = j.at("file").get<int>();
  OperandSet operands(operands_of(w, j.at("dims")), 0);
  move_inputs(file, operands, take);
  const bool on_cpu = j.at("on") == static_cast<int>(RunJob::On::Cpu);
  RunResult result = on_cpu ? run_cpu(w, j, operands) : run_cuda(w, j, operands);
  if (result.fault.empty()) put(file, operands.output());
  return SortedJson{{"fault", result.fault}, {"counters", result.counters}}.dump(
      -1, ' ', false, SortedJson::error_handler_t::replace);
}

RunResult run_in_worker(const Workload& w, const RunJob& job, OperandSet& operands) {
  UniqueFd file = anonymous_file("tilewright-operands");
  move_inputs(file.get(), operands, put);
  const bool on_cpu = job.on == RunJob::On::Cpu;
  KernelWorker worker(on_cpu ? Confined::Yes : Confined::No, {file.get()});
  JobResult done = worker.run("run", to_json(w, job, file.get()).dump(), kAnyTime);
  if (done.status == JobStatus::Failed && job.on == RunJob::On::Gpu) {
    throw DeviceError(done.message);
  }
  if (done.status != JobStatus::Done) return {failed_measurement(done).message};
  const SortedJson j = SortedJson::parse(done.result);
  RunResult result{j.at("fault"), j.at("counters")};
  if (!result.fault.empty()) return result;
  // Both processes read and write at one place of the file: the output is behind the inputs.
  int64_t inputs = 0;
  for (const OperandInfo& info : operands.infos()) {
    if (info.role != ParamRole::Output) inputs += operands.at(info.name).bytes();
  }
  lseek(file.get(), inputs, SEEK_SET);
  take(file.get(), operands.output());
  return result;
}

}  // namespace tilewright::cli
