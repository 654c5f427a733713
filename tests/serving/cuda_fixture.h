// Databases of kernels for a stand-in for a GPU, and their launches.
#pragma once

#include <string>

#include "kernel/cuda_description.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tests/serving/fixture.h"

namespace tilewright::serving::testing {

inline constexpr const char* kGpuSpec = "elementwise:shape=64,fn=relu";
inline constexpr const char* kGpuRanges = "elementwise:shape=[1..64],fn=relu";

class ServingCuda : public FakeDevice {
 protected:
  // Stores this kernel of the spec, tuned for the GPU of that name; returns the record's id.
  static std::string add_kernel(database::Store& store, const std::string& spec,
                                const CudaDescription& d, const std::string& gpu, bool offline) {
    database::Artifact artifact;
    artifact.bytes = {std::byte{1}};
    artifact.description = d.to_json();
    const Workload workload = parse_workload(spec);
    const TargetFacts facts = target_facts(Target::parse("cuda:sm_80"));
    database::Record record;
    record.workload_hash = workload.hash();
    record.workload_canonical = workload.canonical;
    record.op = workload.op;
    record.target = database::make_target(gpu, facts.features, 4, facts.extra);
    record.sketch = "by_hand";
    record.sketch_version = 1;
    record.config = "{}";
    record.samples = {1e-6};
    record.offline = offline;
    record.artifact_hash = store.put_artifact(artifact);
    return store.insert(record);
  }

  // A database with this kernel alone.
  std::string database_with(const CudaDescription& d, const std::string& gpu,
                            bool offline = false) {
    const std::string file = dir.path(gpu + (offline ? "-offline.db" : ".db"));
    database::Store store = database::Store::open(file, database::Mode::Create);
    add_kernel(store, kGpuSpec, d, gpu, offline);
    return file;
  }

  // One with a dispatch table of the spec for ranges: up to 8 elements a kernel of the stand-in that
  // changes the first two alone, beyond them its relu.
  std::string database_with_ranges(const std::string& gpu, bool offline = false) {
    const std::string file = dir.path(gpu + (offline ? "-ranges-offline.db" : "-ranges.db"));
    database::Store store = database::Store::open(file, database::Mode::Create);
    CudaDescription relu = fake_relu();
    relu.source.dims = parse_workload(kGpuRanges).dims;
    for (KernelParam& p : relu.source.params) p.shape = {KernelExtent::dimension(0)};
    CudaDescription other = relu;
    other.source.launches[0].entry = "known";
    database::DispatchTable table;
    const std::string small = add_kernel(store, kGpuRanges, other, gpu, offline);
    const std::string large = add_kernel(store, kGpuRanges, relu, gpu, offline);
    const database::Record record = store.record(small).value.value();
    table.workload_hash = record.workload_hash;
    table.target_hash = record.target.hash;
    table.dims = {"d0"};
    table.ranges = {{{{"d0", 1}}, {{"d0", 8}}, small}, {{{"d0", 9}}, {{"d0", 64}}, large}};
    table.created = 1;
    store.put_dispatch(table);
    return file;
  }

  tw_status prepare(const Opened& opened, const char* target, tw_prepared** prepared,
                    const char* spec = kGpuSpec) {
    test::ScopedEnv driver("TILEWRIGHT_CUDA_DRIVER", path);
    auto options = TW_INIT(tw_prepare_options);
    const char* specs[] = {spec};
    options.specs = specs;
    options.spec_count = 1;
    options.target = target;
    return tw_prepare(opened.library, &options, prepared);
  }

  static tw_status relu(const tw_kernel* kernel, Floats& x, Floats& y, void* stream = nullptr) {
    const DLTensor* tensors[] = {&x.tensor, &y.tensor};
    auto args = TW_INIT(tw_launch_args);
    args.tensors = tensors;
    args.tensor_count = 2;
    args.stream = stream;
    return tw_launch(kernel, &args);
  }
};

// Memory of the stand-in's device; aligned to 256 bytes.
struct OnDevice {
  OnDevice() : tensor({128}, 3) {
    auto address = reinterpret_cast<uintptr_t>(tensor.tensor.data);
    tensor.tensor.byte_offset = (256 - address % 256) % 256;
    tensor.tensor.device = {kDLCUDA, 0};
    tensor.shape[0] = 64;
  }
  float operator[](int64_t i) const {
    return tensor[i + static_cast<int64_t>(tensor.tensor.byte_offset / 4)];
  }
  Floats tensor;
};

}  // namespace tilewright::serving::testing
