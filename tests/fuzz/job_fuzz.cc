// Jobs for workers and their results, as JSON.
#include "base/error.h"
#include "runtime/worker/jobs.h"
#include "tests/fuzz/fuzz_target.h"

namespace tilewright::fuzz {

std::vector<std::string> seed_inputs() {
  KernelDescription description;
  description.main = {"kernel", {{"A", ElemType::f32, {4, 8}, ParamRole::Input}}, 64, 32};
  BuildJob build;
  build.source = {"void kernel() {}", {"-O3"}, description};
  MeasureJob measure;
  measure.object = "object";
  measure.description = description;
  measure.workload = "matmul:m=4,n=4,k=4";
  measure.dims = {{"m", 4}};
  measure.points = {{{{"m", 1}}, 0.5}, {{{"m", 2}}}};
  BuildResult built;
  built.object = "object";
  built.compiler = "gcc 12.2.0";
  MeasureResult measured;
  measured.timing.samples = {1e-3, 2e-3};
  measured.peers["naive"] = {1e-3, "", "a note", "1.0", true};
  return {to_json(build), to_json(measure), to_json(built), to_json(measured)};
}

namespace {

// Requires that parsed text is written so that it reads back.
template <class Read>
void round_trip(const std::string& text, Read read) {
  std::string written;
  try {
    written = to_json(read(text));
  } catch (const Error&) {
    return;
  }
  require(to_json(read(written)) == written, "a job reads back as another one");
}

}  // namespace
}  // namespace tilewright::fuzz

using namespace tilewright;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::string text(fuzz::text_of(data, size));
  fuzz::round_trip(text, build_job_from_json);
  fuzz::round_trip(text, build_result_from_json);
  fuzz::round_trip(text, measure_job_from_json);
  fuzz::round_trip(text, measure_result_from_json);
  return 0;
}
