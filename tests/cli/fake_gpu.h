// Commands on a machine with a GPU: a stand-in for its driver, and kernels that it knows.
#pragma once

#include <functional>

#include "cli/lookup.h"
#include "database/store.h"
#include "ir/ops/spec.h"
#include "kernel/cuda_description.h"
#include "runtime/machine/identity.h"
#include "runtime/tensor/operands.h"
#include "tests/cli/support.h"
#include "tests/runtime/cuda/fake_driver.h"
#include "tuner/sketch.h"

namespace tilewright::cli {

class FakeGpu : public Cli {
 protected:
  void SetUp() override {
    Cli::SetUp();
    KernelSource source;
    source.language = SourceLanguage::Cxx;
    source.code = kFakeDriver;
    source.flags = {"-O0"};
    ASSERT_TRUE(write_file_atomic((dir_ / "driver.so").string(), compile(source).object));
  }
  std::string driver() const {
    return "TILEWRIGHT_CUDA_DRIVER='" + (dir_ / "driver.so").string() + "'";
  }

  // Stores a kernel of the stand-in as the best for the workload, measured on the stand-in's GPU.
  // `change` makes another kernel of its description, and `source` is its text.
  void store_kernel(const std::string& spec, const std::string& entry,
                    const std::function<void(CudaDescription&)>& change = {},
                    const std::string& source = "") {
    using namespace database;
    Workload w = parse_workload(spec);
    Target target = Target::parse("cuda:sm_80");
    TargetFacts facts = target_facts(target);
    Store store = Store::open(dir_ / "tilewright.db", Mode::Create);
    Record r;
    r.workload_hash = w.hash();
    r.workload_canonical = w.canonical;
    r.op = w.op;
    r.target = make_target("Fake GPU", facts.features, 4, facts.extra);
    r.sketch = cuda_sketches().front().name;
    r.sketch_version = cuda_sketches().front().version;
    r.config = "{}";
    r.samples = {1e-6};
    Artifact kernel = artifact(w, entry);
    if (!source.empty()) kernel.source = source;
    if (change) {
      CudaDescription description = CudaDescription::from_json(kernel.description);
      change(description);
      kernel.description = description.to_json();
    }
    r.artifact_hash = store.put_artifact(kernel);
    store.insert(r);
  }

  // A cubin of the stand-in, which takes any bytes, and a launch of one of its kernels.
  static database::Artifact artifact(const Workload& w, const std::string& entry) {
    CudaDescription d;
    d.source.target = "cuda:sm_80";
    CudaLaunch l;
    l.entry = entry;
    l.grid = {Expr(1), Expr(1), Expr(1)};
    l.block = {64, 1, 1};
    for (const OperandInfo& o : operands_of(w, {})) {
      l.buffers.push_back(static_cast<int>(d.source.params.size()));
      d.source.params.push_back({o.name, o.elem, {o.shape.begin(), o.shape.end()}, o.role});
    }
    d.source.launches = {l};
    database::Artifact a;
    a.bytes = {std::byte{'i'}, std::byte{'m'}};
    a.description = d.to_json();
    a.source = "// the text of " + entry;
    a.compiler = "none";
    return a;
  }
};

}  // namespace tilewright::cli
