// The C of the AArch64 rows, and of tuned kernels that use them, run by an emulator. Needs a cross
// compiler and qemu-user, which `scripts/deps --cross` installs; skipped without them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "codegen/c/c_types.h"
#include "codegen/codegen.h"
#include "codegen/intrinsics/intrinsics.h"
#include "ir/ops/spec.h"
#include "runtime/compile/process.h"
#include "schedule/trial.h"
#include "tests/codegen/support.h"
#include "tuner/sketch.h"

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

// An element as the generated code stores it, as a number.
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

// The kernel with a main() that packs its weights, runs it on `arrays` and prints its result.
std::string standalone(const Schedule& s, const Target& target, const NdArrays& arrays) {
  const Module module = s.module();
  std::string data, calls, print;
  std::set<std::string> declared;
  auto use = [&](const Program& program, const std::string& symbol) {
    std::string args;
    for (const Param& p : program.params) {
      const std::string name = p.buffer->name, variable = fmt::format("in_{}", name);
      const std::string type = storage_type(p.buffer->elem);
      args += variable + ", ";
      if (!declared.insert(name).second) continue;
      std::string values = "0";
      if (auto it = arrays.find(name); it != arrays.end()) {
        for (double v : it->second.data) values += ", " + bits(p.buffer->elem, v);
        values.erase(0, values.find(' '));
      }
      data += fmt::format("static {} {}[{}] __attribute__((aligned(64))) = {{{}}};\n", type,
                          variable, *num_elements(p.buffer), values);
      if (p.role != ParamRole::Output || &program != &module.main) continue;
      print = fmt::format("  for (int i = 0; i < {}; ++i) printf(\"%.9g\\n\", (double){}[i]);\n",
                          *num_elements(p.buffer), variable);
    }
    calls += fmt::format("  {{ void* args[] = {{{}}}; {}(args, 0, &context); }}\n", args, symbol);
  };
  for (size_t i = 0; i < module.packs.size(); ++i)
    use(module.packs[i], fmt::format("tw_pack_{}", i));
  use(module.main, "tw_main");
  return generate_c(module, target).code + fmt::format(R"(
int printf(const char*, ...);
static char workspace[1 << 20] __attribute__((aligned(64)));
static void serial(void* pool, int64_t n, void (*body)(void*, int64_t, int64_t, int32_t),
                   void* closure) {{
  (void)pool;
  body(closure, 0, n, 0);
}}
{}int main(void) {{
  tw_context context = {{1, serial, 0, workspace}};
{}{}  return 0;
}}
)",
                                                       data, calls, print);
}

// The output of the program, built for AArch64 and run by the emulator.
std::vector<double> run_on_aarch64(const std::string& name, const std::string& code) {
  std::filesystem::path folder =
      std::filesystem::path(testing::TempDir()) / fmt::format("tilewright_{}_{}", name, getpid());
  std::filesystem::create_directories(folder);
  const std::string source = folder / "kernel.c", program = folder / "kernel";
  std::ofstream(source) << code;
  ProcessResult compiled = run_process(
      {kCompiler, "-O2", "-static", "-march=armv8.6-a+sve", "-o", program, source}, "", kSeconds);
  EXPECT_TRUE(compiled.ok()) << compiled.err;
  std::vector<double> values;
  if (compiled.ok()) {
    ProcessResult ran = run_process({kEmulator, "-cpu", "max", program}, "", kSeconds);
    EXPECT_TRUE(ran.ok()) << ran.outcome() << ran.err;
    std::istringstream lines(ran.out);
    for (double value; lines >> value;) values.push_back(value);
  }
  std::filesystem::remove_all(folder);
  return values;
}

// Random operands of the program; bytes cover their whole range.
NdArrays random_operands(const Program& program) {
  NdArrays arrays;
  Rng rng(7);
  for (const Param& p : program.params) {
    if (p.role == ParamRole::Output) continue;
    NdArray& a = arrays[p.buffer->name] = NdArray::random(p.buffer->elem, const_shape(p.buffer), 3);
    if (bits_of(p.buffer->elem) != 8) continue;
    for (double& v : a.data) {
      v = round_to(p.buffer->elem, static_cast<double>(rng.below(256)));
    }
  }
  return arrays;
}

void expect_results(const std::vector<double>& got, const NdArray& want, double most) {
  ASSERT_EQ(got.size(), want.data.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want.data[i], most) << "element " << i;
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
  NdArrays arrays = random_operands(s.program());
  std::vector<double> got = run_on_aarch64(std::string(row.name), standalone(s, target, arrays));
  interpret(s.program(), arrays);
  bool exact = row.semantics().operands()[0]->elem != ElemType::f32;
  expect_results(got, arrays.at("C"), exact ? 0 : 1e-5);
}

INSTANTIATE_TEST_SUITE_P(Intrinsics, OnAarch64, testing::ValuesIn(aarch64()), [](const auto& info) {
  std::string name(info.param->name);
  std::replace(name.begin(), name.end(), '.', '_');
  return name;
});

struct SketchCase {
  const char* name;
  const char* spec;
  std::set<std::string> features;
  const char* intrinsic;
};

void PrintTo(const SketchCase& c, std::ostream* out) { *out << c.name; }

class SketchOnAarch64 : public testing::TestWithParam<SketchCase> {};

// The sketch proposes the rows of a processor that has them, with weights laid out at load.
TEST_P(SketchOnAarch64, ProposesDotProductsThatAreRight) {
  const SketchCase& c = GetParam();
  Workload w = make_workload(parse_spec(c.spec));
  Target target = Target::parse("generic");
  target.extensions = c.features;
  Trial first = Trial::first();
  Schedule s = apply_sketch(cpu_sketches()[0], {w, target, 1}, first);
  EXPECT_NE(first.config().find(std::string(".intrinsic\":\"") + c.intrinsic), std::string::npos)
      << first.config();
  if (!runs(kCompiler) || !runs(kEmulator)) {
    GTEST_SKIP() << "needs " << kCompiler << " and " << kEmulator;
  }
  Program plain = lower(w);
  NdArrays arrays = random_operands(plain);
  std::vector<double> got = run_on_aarch64(c.name, standalone(s, target, arrays));
  interpret(plain, arrays);
  const NdArray& want = arrays.at(plain.params.back().buffer->name);
  expect_results(got, want, is_float(plain.params.back().buffer->elem) ? 1e-3 : 0);
}

INSTANTIATE_TEST_SUITE_P(
    Sketches, SketchOnAarch64,
    testing::Values(
        SketchCase{"neon_i8", "matmul:m=5,n=24,k=36,dtype=i8", {"neon", "dotprod"}, "neon.sdot"},
        SketchCase{"sve_i8", "matmul:m=5,n=22,k=35,dtype=i8", {"sve"}, "sve.sdot"},
        SketchCase{"sve_conv",
                   "conv2d:n=1,h=5,w=6,ci=8,co=12,kernel=3,pad=1,dtype=u8",
                   {"sve"},
                   "sve.udot"},
        SketchCase{
            "neon_bf16", "matmul:m=3,n=16,k=32,dtype=bf16,out=f32", {"neon", "bf16"}, "neon.bfdot"},
        SketchCase{
            "sve_bf16", "matmul:m=3,n=16,k=31,dtype=bf16,out=f32", {"sve", "bf16"}, "sve.bfdot"}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace tilewright
