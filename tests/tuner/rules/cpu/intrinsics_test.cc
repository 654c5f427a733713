// The C of every intrinsic that this machine has, on random data over the whole range of its types.
#include "codegen/intrinsics/intrinsics.h"

#include <algorithm>

#include "codegen/codegen.h"
#include "runtime/compile/compile.h"
#include "runtime/load/kernel.h"
#include "runtime/tensor/array.h"
#include "schedule/trial.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

// Bytes over the whole range for which the row is exact; other numbers are small enough for exact
// sums.
NdArray values(const Intrinsic& row, const Buffer& buffer, uint64_t seed) {
  NdArray array = NdArray::random(buffer->elem, const_shape(buffer), seed);
  if (bits_of(buffer->elem) != 8) return array;
  Rng rng(seed);
  for (double& v : array.data) {
    v = round_to(buffer->elem, static_cast<double>(rng.below(256)));
    if (row.most_of_b == 0 || buffer->name != "B") continue;
    v = std::clamp<double>(v, -row.most_of_b, row.most_of_b);
  }
  return array;
}

// The program's result on such values, and the values.
NdArrays results(const Intrinsic& row, const Program& program) {
  NdArrays arrays;
  uint64_t seed = 0;
  for (const Param& p : program.params) {
    if (p.role != ParamRole::Output) arrays[p.buffer->name] = values(row, p.buffer, ++seed);
  }
  interpret(program, arrays);
  return arrays;
}

Target with_features_of(const Intrinsic& row) {
  Target target = Target::parse(row.features[0].starts_with("avx512") ? "avx512" : "generic");
  if (row.features[0] == "avx2") target = Target::parse("avx2");
  target.extensions = {row.features.begin(), row.features.end()};
  return target;
}

bool is_aarch64(const Intrinsic& row) {
  return row.name.starts_with("neon.") || row.name.starts_with("sve.");
}

TEST(Intrinsics, ComputeWhatTheirRowsSay) {
  for (const Intrinsic* row : intrinsics_of(Target::parse("native"))) {
    SCOPED_TRACE(row->name);
    Target target = with_features_of(*row);  // no other features: a faster row would replace it
    Schedule s = test::tensorized(*row);
    NdArrays arrays = results(*row, s.program());
    std::vector<HostArray> host;
    std::vector<void*> args;
    for (const Param& p : s.program().params) {
      host.emplace_back(p.buffer->name, p.buffer->elem, const_shape(p.buffer));
      if (p.role == ParamRole::Output) continue;
      const NdArray& a = arrays.at(p.buffer->name);
      for (size_t i = 0; i < a.data.size(); ++i)
        host.back().set(static_cast<int64_t>(i), a.data[i]);
    }
    for (HostArray& a : host) args.push_back(a.data());
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

// The compiler takes the C of rows that this machine lacks, too.
TEST(Intrinsics, CompileForTheirFeatures) {
  for (const Intrinsic& row : intrinsics()) {
    if (is_aarch64(row)) continue;
    SCOPED_TRACE(row.name);
    KernelSource source = generate_c(test::tensorized(row).module(), with_features_of(row));
    std::string function = "tw_" + std::string(row.name);
    std::replace(function.begin(), function.end(), '.', '_');
    const bool called = source.code.find(function) != std::string::npos;
    const std::string multiplied = "tw_tile_multiply(" + std::string(row.tile_operation) + ", ";
    EXPECT_TRUE(called || source.code.find(multiplied) != std::string::npos)
        << "another row was taken";
    EXPECT_FALSE(compile(source).object.empty());
  }
}

// Tiles are configured once per function, not once per product.
TEST(Intrinsics, TilesAreConfiguredAroundTheirUse) {
  const Intrinsic& row = *find_intrinsic("amx.tdpbusd");
  std::string code = generate_c(test::tensorized(row).module(), with_features_of(row)).code;
  size_t begin = code.find("  tw_amx_begin();"), end = code.find("  tw_amx_end();");
  size_t use = code.find("tw_tile_multiply(tdpbusd, ");
  ASSERT_NE(use, std::string::npos) << code;
  EXPECT_LT(begin, use);
  EXPECT_LT(use, end);
  EXPECT_EQ(code.find("  tw_amx_begin();", begin + 1), std::string::npos);
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
