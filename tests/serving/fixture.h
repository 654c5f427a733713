// Databases with kernels written by hand, and callers of the C interface.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "database/store.h"
#include "ir/ops/spec.h"
#include "kernel/target.h"
#include "runtime/compile/compile.h"
#include "runtime/machine/identity.h"
#include "tests/runtime/support.h"
#include "tilewright/tilewright.h"

namespace tilewright::serving::testing {

inline database::TargetIdentity native_identity() {
  TargetFacts facts = target_facts(Target::parse("native"));
  return database::make_target(facts.chip, facts.features, facts.cores, facts.extra);
}

// A product of n = 8, k = 16 that adds `tag` to each element, so that a test sees which kernel ran.
struct HandMade {
  std::string spec = "matmul:m=4,n=8,k=16";
  bool dynamic = false;  // m is read at launch
  bool packed = true;    // B comes transposed by a packing function
  int tag = 0;
  int threads = 1;
  int64_t scratch = 0;  // bytes of workspace a thread, which the kernel writes to
  bool is_default = false;
  bool confirmed = false;  // won in turns with other kernels
  bool sound = true;       // false: the stored object does not load
  double seconds = 1e-6;
  database::TargetIdentity target = native_identity();
};

inline KernelSource hand_made_source(const HandMade& made) {
  KernelSource source;
  const std::string b = made.packed ? "b[j * 16 + x]" : "b[x * 8 + j]";
  source.code = test::kPrelude + R"(
    struct closure { float *a, *b, *c; char* scratch; };
    static void body(void* p, int64_t begin, int64_t end, int32_t worker) {
      struct closure* s = p;
      float *a = s->a, *b = s->b, *c = s->c;
      for (int64_t i = begin; i < end; ++i)
        for (int j = 0; j < 8; ++j) {
          float sum = )" +
                std::to_string(made.tag) + R"(;
          for (int x = 0; x < 16; ++x) sum += a[i * 16 + x] * )" +
                b + R"(;
          c[i * 8 + j] = sum;
        }
      for (int64_t i = 0; i < )" +
                std::to_string(made.scratch) + "; ++i) s->scratch[worker * " +
                std::to_string(made.scratch) + R"( + i] = 1;
    }
    int32_t kernel(void* const* args, const int64_t* dims, const tw_context* context) {
      struct closure s = {args[0], args[1], args[2], context->workspace};
      context->parallel_for(context->pool, )" +
                (made.dynamic ? "dims[0]" : "4") + R"(, body, &s);
      return 0;
    }
    int32_t pack_B(void* const* args, const int64_t* dims, const tw_context* context) {
      const float* b = args[0];
      float* p = args[1];
      for (int x = 0; x < 16; ++x)
        for (int j = 0; j < 8; ++j) p[j * 16 + x] = b[x * 8 + j];
      return 0;
    })";
  KernelExtent m = made.dynamic ? KernelExtent::dimension(0) : KernelExtent(4);
  KernelParam weight = test::param("B", {16, 8}, ParamRole::Weight);
  KernelParam laid_out = test::param("B.packed", {8, 16}, ParamRole::Weight);
  source.description.main = {"kernel",
                             {test::param("A", {m, 16}), made.packed ? laid_out : weight,
                              test::param("C", {m, 8}, ParamRole::Output)},
                             0,
                             made.scratch};
  if (made.packed) source.description.packs = {{"pack_B", {weight, laid_out}, 0, 0}};
  if (made.dynamic) source.description.dims = {"m"};
  return source;
}

// Stores the kernel with a record of its workload, and returns the record's id.
inline std::string add_kernel(database::Store& store, const HandMade& made,
                              const KernelSource& source, const std::string& flags = "") {
  const std::string object = made.sound ? compile(source).object : "no object";
  database::Artifact artifact;
  auto* first = reinterpret_cast<const std::byte*>(object.data());
  artifact.bytes = {first, first + object.size()};
  artifact.description = source.description.to_json();
  artifact.source = source.code;
  artifact.compiler = "cc";
  artifact.flags = flags;
  const Workload workload = parse_workload(made.spec);
  database::Record record;
  record.workload_hash = workload.hash();
  record.workload_canonical = workload.canonical;
  record.op = workload.op;
  record.target = made.target;
  record.sketch = "by_hand";
  record.sketch_version = 1;
  record.config = "{}";
  record.threads = made.threads;
  record.samples = {made.seconds};
  record.is_default = made.is_default;
  record.confirmed = made.confirmed;
  record.created = 1'700'000'000'000'000;
  record.artifact_hash = store.put_artifact(artifact);
  return store.insert(record);
}

inline std::string add_kernel(database::Store& store, const HandMade& made) {
  return add_kernel(store, made, hand_made_source(made));
}

// A folder with a database of such kernels.
class Database {
 public:
  Database(std::initializer_list<HandMade> kernels) {
    database::Store store = database::Store::open(path(), database::Mode::Create);
    for (const HandMade& made : kernels) add_kernel(store, made);
  }
  std::string path() const { return folder_.path("kernels.db"); }

 private:
  test::TempDir folder_;
};

// A tensor with memory of its own, aligned to 64 bytes.
class Floats {
 public:
  explicit Floats(std::vector<int64_t> extents, int seed = 0) : shape(std::move(extents)) {
    size_t count = 1;
    for (int64_t extent : shape) count *= static_cast<size_t>(extent);
    data_.reset(static_cast<float*>(std::aligned_alloc(64, (count * 4 + 127) / 64 * 64)));
    for (size_t i = 0; i < count; ++i) {
      data_.get()[i] = static_cast<float>((i * 7 + static_cast<size_t>(seed)) % 13) - 6;
    }
    tensor = {data_.get(),
              {kDLCPU, 0},
              static_cast<int32_t>(shape.size()),
              {kDLFloat, 32, 1},
              shape.data(),
              nullptr,
              0};
  }
  Floats(const Floats&) = delete;
  Floats& operator=(const Floats&) = delete;

  float operator[](int64_t i) const { return data_.get()[i]; }

  std::vector<int64_t> shape;
  DLTensor tensor{};

 private:
  struct Free {
    void operator()(float* p) const { std::free(p); }
  };
  std::unique_ptr<float, Free> data_;
};

// The first element of the product that differs from what a kernel with this tag gives, or "".
inline std::string product_fault(const Floats& a, const Floats& b, const Floats& c, int tag) {
  for (int64_t i = 0; i < c.shape[0]; ++i) {
    for (int64_t j = 0; j < 8; ++j) {
      float sum = static_cast<float>(tag);
      for (int64_t x = 0; x < 16; ++x) sum += a[i * 16 + x] * b[x * 8 + j];
      if (c[i * 8 + j] != sum) {
        return "C[" + std::to_string(i) + ", " + std::to_string(j) + "] is " +
               std::to_string(c[i * 8 + j]) + ", expected " + std::to_string(sum);
      }
    }
  }
  return "";
}

// An opened database with the lines that were logged.
class Opened {
 public:
  explicit Opened(const std::string& path) {
    auto options = TW_INIT(tw_open_options);
    options.log = [](void* user, const char* line) {
      static_cast<std::vector<std::string>*>(user)->push_back(line);
    };
    options.log_user = &lines;
    EXPECT_EQ(tw_open(path.c_str(), &options, &library), TW_OK) << tw_last_error();
  }
  ~Opened() { tw_close(library); }
  Opened(const Opened&) = delete;
  Opened& operator=(const Opened&) = delete;

  tw_library* library = nullptr;
  std::vector<std::string> lines;
};

// One spec, prepared.
class PreparedSpec {
 public:
  PreparedSpec(tw_library* library, const std::string& spec, int threads = 1,
               const std::vector<int64_t>& m = {}) {
    const char* specs[] = {spec.c_str()};
    tw_sizes sizes = {"m", m.data(), m.size()};
    auto options = TW_INIT(tw_prepare_options);
    options.specs = specs;
    options.spec_count = 1;
    options.threads = threads;
    options.sizes = m.empty() ? nullptr : &sizes;
    options.size_count = m.empty() ? 0 : 1;
    EXPECT_EQ(tw_prepare(library, &options, &prepared), TW_OK) << tw_last_error();
    found = tw_find(prepared, spec.c_str(), &kernel);
  }
  ~PreparedSpec() { tw_release(prepared); }
  PreparedSpec(const PreparedSpec&) = delete;
  PreparedSpec& operator=(const PreparedSpec&) = delete;

  tw_report report(size_t index = 0) const {
    auto line = TW_INIT(tw_report);
    EXPECT_EQ(tw_report_at(prepared, index, &line), TW_OK) << tw_last_error();
    return line;
  }

  tw_prepared* prepared = nullptr;
  const tw_kernel* kernel = nullptr;
  tw_status found = TW_OK;
};

// Weights of a kernel, packed from B.
class Packed {
 public:
  Packed(const tw_kernel* kernel, const Floats& b) {
    tw_named_tensor named = {"B", &b.tensor};
    EXPECT_EQ(tw_pack_weights(kernel, &named, 1, nullptr, &weights), TW_OK) << tw_last_error();
  }
  ~Packed() { tw_free_weights(weights); }
  Packed(const Packed&) = delete;
  Packed& operator=(const Packed&) = delete;

  tw_weights* weights = nullptr;
};

// Launches C = A * B; `b` is given as a tensor where there are no weights.
inline tw_status launch(const tw_kernel* kernel, const Floats& a, const Floats* b, const Floats& c,
                        const tw_weights* weights = nullptr, void* workspace = nullptr,
                        size_t workspace_bytes = 0, const tw_executor* executor = nullptr) {
  const DLTensor* tensors[] = {&a.tensor, b == nullptr ? nullptr : &b->tensor, &c.tensor};
  auto args = TW_INIT(tw_launch_args);
  args.tensors = tensors;
  args.tensor_count = 3;
  args.weights = weights;
  args.workspace = workspace;
  args.workspace_bytes = workspace_bytes;
  args.executor = executor;
  return tw_launch(kernel, &args);
}

}  // namespace tilewright::serving::testing
