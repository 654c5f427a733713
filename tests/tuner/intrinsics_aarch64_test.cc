// The C of the AArch64 rows, run by an emulator. Needs a cross compiler and qemu-user, which
// `scripts/deps --cross` installs; skipped without them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "codegen/c_types.h"
#include "codegen/codegen.h"
#include "codegen/intrinsics.h"
#include "runtime/process.h"
#include "schedule/trial.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

constexpr const char* kCompiler = "aarch64-linux-gnu-gcc";
constexpr const char* kEmulator = "qemu-aarch64";
constexpr double kSeconds = 300;

bool runs(const char* program) { return run_process({program, "--version"}, "", kSeconds).ok(); }

std::vector<const Intrinsic*> aarch64() {
  std::vector<const Intrinsic*> rows;
  for (const Intrinsic& row : intrinsics()) {
    if (row.name.starts_with("neon.") || row.name.starts_with("sve.")) rows.push_back(&row);
  }
  return rows;
}

// How the generated code stores an element, as a number.
std::string bits(ElemType type, double value) {
  if (type == ElemType::bf16) {
    float narrow = static_cast<float>(value);
    uint32_t pattern;
    std::memcpy(&pattern, &narrow, sizeof pattern);
    return std::to_string(pattern >> 16);
  }
  return is_float(type) ? fmt::format("{:.9e}f", value)
                        : std::to_string(static_cast<int64_t>(value));
}

// The kernel with a main that runs it on `arrays` and prints its result.
std::string standalone(const Schedule& s, const Target& target, const NdArrays& arrays) {
  std::string data, args, print;
  for (const Param& p : s.program().params) {
    const std::string& name = p.buffer->name;
    std::string type = storage_type(p.buffer->elem), values;
    if (p.role == ParamRole::Output) {
      print = fmt::format("  for (int i = 0; i < {}; ++i) printf(\"%.9g\\n\", (double)in_{}[i]);\n",
                          *num_elements(p.buffer), name);
    } else {
      for (double v : arrays.at(name).data) values += bits(p.buffer->elem, v) + ", ";
    }
    data += fmt::format("static {} in_{}[{}] __attribute__((aligned(64))) = {{{}}};\n", type, name,
                        *num_elements(p.buffer), values);
    args += fmt::format("in_{}, ", name);
  }
  return generate_c(s.module(), target).code +
         fmt::format(
             "\nint printf(const char*, ...);\n{}int main(void) {{\n  void* args[] = {{{}}};\n"
             "  tw_context context = {{1}};\n  tw_main(args, 0, &context);\n{}  return 0;\n}}\n",
             data, args, print);
}

class OnAarch64 : public testing::TestWithParam<const Intrinsic*> {};

TEST_P(OnAarch64, ComputesWhatItsRowSays) {
  if (!runs(kCompiler) || !runs(kEmulator)) {
    GTEST_SKIP() << "needs " << kCompiler << " and " << kEmulator;
  }
  const Intrinsic& row = *GetParam();
  Target target = Target::parse("generic");
  target.extensions = {row.features.begin(), row.features.end()};
  Schedule s = test::tensorized(row);
  NdArrays arrays;
  Rng rng(7);
  for (const Param& p : s.program().params) {
    if (p.role == ParamRole::Output) continue;
    NdArray& a = arrays[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), 3);
    if (bits_of(p.buffer->elem) != 8) continue;
    for (double& v : a.data) {
      v = round_to(p.buffer->elem, static_cast<double>(rng.below(256)));
    }
  }
  std::filesystem::path folder = std::filesystem::path(testing::TempDir()) /
                                 fmt::format("tilewright_{}_{}", row.name, getpid());
  std::filesystem::create_directories(folder);
  const std::string source = folder / "kernel.c", program = folder / "kernel";
  std::ofstream(source) << standalone(s, target, arrays);
  ProcessResult compiled = run_process(
      {kCompiler, "-O2", "-static", "-march=armv8.6-a+sve", "-o", program, source}, "", kSeconds);
  ASSERT_TRUE(compiled.ok()) << compiled.err;
  ProcessResult ran = run_process({kEmulator, "-cpu", "max", program}, "", kSeconds);
  std::filesystem::remove_all(folder);
  ASSERT_TRUE(ran.ok()) << ran.outcome() << ran.err;
  interpret(s.program(), arrays);
  std::istringstream lines(ran.out);
  bool exact = row.semantics().operands()[0]->elem != ElemType::f32;
  for (double want : arrays.at("C").data) {
    double got = NAN;
    lines >> got;
    EXPECT_NEAR(got, want, exact ? 0 : 1e-5);
  }
}

INSTANTIATE_TEST_SUITE_P(Intrinsics, OnAarch64, testing::ValuesIn(aarch64()), [](const auto& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

}  // namespace
}  // namespace tilewright
