// The C of every intrinsic that this machine has, on random data of the whole range of its types.
#include "codegen/intrinsics.h"

#include "codegen/codegen.h"
#include "runtime/array.h"
#include "runtime/compile.h"
#include "runtime/kernel.h"
#include "schedule/trial.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

// Bytes over their whole range, other numbers small enough for exact sums.
NdArray values(const Buffer& buffer, uint64_t seed) {
  NdArray array = NdArray::random(buffer->elem, const_shape(buffer), seed);
  if (bits_of(buffer->elem) != 8) return array;
  Rng rng(seed);
  for (double& v : array.data) {
    v = round_to(buffer->elem, static_cast<double>(rng.below(256)));
  }
  return array;
}

TEST(Intrinsics, ComputeWhatTheirRowsSay) {
  Target target = Target::parse("native");
  for (const Intrinsic* row : intrinsics_of(target)) {
    SCOPED_TRACE(row->name);
    Schedule s = test::tensorized(*row);
    NdArrays arrays;
    std::vector<HostArray> host;
    std::vector<void*> args;
    for (const Param& p : s.program().params) {
      host.emplace_back(p.buffer->name, p.buffer->elem, const_shape(p.buffer));
      if (p.role == ParamRole::Output) continue;
      const NdArray& a = arrays[p.buffer->name] = values(p.buffer, host.size());
      for (size_t i = 0; i < a.data.size(); ++i)
        host.back().set(static_cast<int64_t>(i), a.data[i]);
    }
    for (HostArray& a : host) args.push_back(a.data());
    interpret(s.program(), arrays);
    KernelSource source = generate_c(s.module(), target);
    Kernel kernel(compile(source).object, source.description);
    kernel.launch(args.data(), nullptr, serial_context());
    bool exact = !is_float(host.back().elem());
    for (int64_t i = 0; i < host.back().count(); ++i) {
      double want = arrays.at("C").data[static_cast<size_t>(i)];
      EXPECT_NEAR(host.back().get(i), want, exact ? 0 : 1e-5) << "element " << i;
    }
  }
}

TEST(Intrinsics, AKernelThatThisMachineCannotRunIsNotLoaded) {
  Schedule s(lower(make_workload(parse_spec("elementwise:shape=4,fn=relu"))));
  KernelSource source = generate_c(s.module(), Target::parse("generic"));
  std::string object = compile(source).object;
  source.description.features = {"amx-nothing"};
  try {
    Kernel kernel(object, source.description);
    ADD_FAILURE() << "was loaded";
  } catch (const KernelError& e) {
    EXPECT_STREQ(e.what(), "the kernel needs amx-nothing, which this processor lacks");
  }
}

}  // namespace
}  // namespace tilewright
