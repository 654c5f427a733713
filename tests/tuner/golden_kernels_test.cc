// Generated kernels, word for word, and the seconds that the analytical model predicts for GPU ones:
// a change of the generator shows which kernels it changes.
#include "tests/tuner/golden_kernels.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "base/files.h"
#include "codegen/codegen.h"
#include "ir/ops/spec.h"
#include "kernel/cuda_description.h"
#include "tests/golden.h"
#include "tuner/gpu/gpu_model.h"

namespace tilewright {
namespace {

std::string heading(const GoldenKernel& k) {
  return fmt::format("spec: {}\ntarget: {}\n", k.spec, k.target.name);
}

// The scratch memory and the launches, one per line.
std::string launches_of(const CudaSource& source) {
  const auto j = nlohmann::json::parse(CudaDescription{source, {}}.to_json());
  std::string text;
  for (const char* key : {"scratch", "launches"}) {
    for (const nlohmann::json& item : j.at(key)) text += fmt::format("{}: {}\n", key, item.dump());
  }
  return text;
}

// C without the prelude and the helpers, which stand before the first exported function.
std::string functions_of(const KernelSource& source) {
  size_t first = source.code.find(source.description.main.symbol);
  for (const KernelFunction& pack : source.description.packs) {
    first = std::min(first, source.code.find(pack.symbol));
  }
  return source.code.substr(source.code.rfind('\n', first) + 1);
}

class GoldenCuda : public ::testing::TestWithParam<GoldenKernel> {};

TEST_P(GoldenCuda, Cuda) {
  const GoldenKernel& k = GetParam();
  const Schedule s = golden_schedule(k, parse_workload(k.spec));
  const CudaSource source = generate_cuda(s.module(), k.target);
  const GpuEstimate estimate = estimate_gpu(s.program(), k.target);
  ASSERT_TRUE(estimate.fits()) << estimate.refusal;
  std::string text = heading(k);
  text += fmt::format("predicted: {:.4g} s\n{}\n{}", estimate.seconds, launches_of(source),
                      source.text);
  if (!source.packing.description.packs.empty()) {
    text += "\n// Packing, on a CPU.\n" + functions_of(source.packing);
  }
  EXPECT_TRUE(test::matches_golden_file(text, k.file()));
}

class GoldenC : public ::testing::TestWithParam<GoldenKernel> {};

TEST_P(GoldenC, C) {
  const GoldenKernel& k = GetParam();
  const Schedule s = golden_schedule(k, parse_workload(k.spec));
  const std::string text = heading(k) + "\n" + functions_of(generate_c(s.module(), k.target));
  EXPECT_TRUE(test::matches_golden_file(text, k.file()));
}

std::string name_of_golden(const ::testing::TestParamInfo<GoldenKernel>& info) {
  return info.param.name;
}
INSTANTIATE_TEST_SUITE_P(Families, GoldenCuda, ::testing::ValuesIn(golden_gpu_kernels()),
                         name_of_golden);
INSTANTIATE_TEST_SUITE_P(Families, GoldenC, ::testing::ValuesIn(golden_cpu_kernels()),
                         name_of_golden);

// The index names that a text declares and does not use behind the declaration.
std::vector<std::string> unused_names(const std::string& text) {
  static const std::regex declares(R"(\n *const (?:int|long long) (\w+) = )");
  std::vector<std::string> unused;
  for (std::sregex_iterator it(text.begin(), text.end(), declares), end; it != end; ++it) {
    const std::string name = (*it)[1].str();
    const auto from = static_cast<size_t>(it->position() + it->length());
    const std::string rest = text.substr(from, text.find("\n}", from) - from);
    if (!std::regex_search(rest, std::regex("\\b" + name + "\\b"))) unused.push_back(name);
  }
  return unused;
}

TEST(GoldenKernels, OfGpusUseTheNamesThatTheyDeclare) {
  const auto root = test::source_dir() / "tests" / "golden";
  for (const GoldenKernel& k : golden_gpu_kernels()) {
    const std::string text = read_file((root / k.file()).string()).value();
    EXPECT_EQ(unused_names(text), std::vector<std::string>{}) << k.name;
  }
  EXPECT_EQ(unused_names("void f() {\n  const long long a = 1;\n  const int b = a;\n}\n"),
            std::vector<std::string>{"b"});
}

// A file without a case would claim more than is tested.
TEST(GoldenKernels, EachFileHasACase) {
  const auto root = test::source_dir() / "tests" / "golden";
  std::set<std::string> expected, found;
  for (const auto* kernels : {&golden_gpu_kernels(), &golden_cpu_kernels()}) {
    for (const GoldenKernel& k : *kernels) {
      EXPECT_TRUE(expected.insert(k.file().string()).second) << k.name << " is there twice";
    }
  }
  for (const auto& entry :
       std::filesystem::recursive_directory_iterator(root / "golden_kernels_test")) {
    if (!entry.is_directory()) found.insert(entry.path().lexically_relative(root).string());
  }
  EXPECT_EQ(found, expected);
}

}  // namespace
}  // namespace tilewright
