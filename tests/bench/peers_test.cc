// Each peer that was built computes what plain loops compute, and refuses what it has not.
#include "runtime/peers/peer_library.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "bench/peers/naive.h"
#include "kernel/cpu_features.h"

namespace tilewright::peers {
namespace {

using nlohmann::json;

const std::vector<PeerLibrary>& libraries() {
  static const std::vector<PeerLibrary> all = [] {
    std::vector<std::string> problems;
    auto found = PeerLibrary::discover({std::string(TILEWRIGHT_BINARY_DIR) + "/peers"}, problems);
    EXPECT_THAT(problems, testing::IsEmpty());
    return found;
  }();
  return all;
}

// Runs the spec on every peer that has it; gives their names.
std::vector<std::string> check_on_all(const std::string& text, int threads) {
  const json spec = json::parse(text);
  std::vector<std::string> able;
  for (const PeerLibrary& library : libraries()) {
    NaiveCase inputs = naive_case(spec);
    const std::vector<double> expected = naive_result(spec, inputs);
    std::string reason;
    auto problem = library.prepare(text, threads, inputs.for_peer(), reason);
    if (problem == nullptr) {
      EXPECT_FALSE(reason.empty());
      continue;
    }
    able.emplace_back(library.name());
    if (library.name().starts_with("onednn")) {
      EXPECT_NE(problem->implementation(), "") << text;
    }
    problem->run();
    library.quiesce();
    problem->run();  // again, from cold threads
    double worst = 0;
    EXPECT_EQ(expected.size(), static_cast<size_t>(inputs.output().elements));
    for (size_t i = 0; i < expected.size(); ++i) {
      const double error = std::abs(inputs.output().at(i) - expected[i]);
      worst = std::isnan(error) ? INFINITY : std::max(worst, error / (1 + std::abs(expected[i])));
    }
    EXPECT_LT(worst, 2e-5) << library.name() << " on " << text;
    library.quiesce();
  }
  return able;
}

bool has(const std::string& name) {
  for (const PeerLibrary& library : libraries()) {
    if (library.name() == name) return true;
  }
  return false;
}

// OpenBLAS names its kernels after the first chip that ran them. A fallback for chips that it does
// not know would be a slow peer, and a comparison with it false.
TEST(Peers, OpenblasRunsVectorKernelsWhereTheChipHasThem) {
  if (cpu_features().count("avx2") == 0) GTEST_SKIP() << "no avx2";
  for (const PeerLibrary& library : libraries()) {
    if (library.name() != "openblas") continue;
    for (const char* fallback : {"Prescott", "Core2", "Generic"}) {
      EXPECT_THAT(std::string(library.version()), testing::Not(testing::HasSubstr(fallback)));
    }
  }
}

class PeerCase : public testing::TestWithParam<const char*> {};

TEST_P(PeerCase, ComputesWhatPlainLoopsCompute) {
  for (int threads : {1, 2}) {
    const auto able = check_on_all(GetParam(), threads);
    for (const char* name : {"onednn", "onednn_omp"}) {
      if (has(name)) {
        EXPECT_THAT(able, testing::Contains(name)) << GetParam();
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Matmul, PeerCase,
    testing::Values(R"({"op": "matmul", "m": 33, "n": 65, "k": 47})",
                    R"({"op": "matmul", "m": 1, "n": 128, "k": 64})",
                    R"({"op": "matmul", "batch": 3, "m": 17, "n": 20, "k": 31})",
                    R"({"op": "matmul", "m": 20, "n": 33, "k": 40, "trans_b": true})",
                    R"({"op": "matmul", "m": 20, "n": 33, "k": 40, "trans_a": true})",
                    R"({"op": "matmul", "m": 9, "n": 64, "k": 8, "epilogue": ["bias", "relu"]})",
                    R"({"op": "matmul", "m": 9, "n": 64, "k": 8, "epilogue": ["silu", "add"]})",
                    R"({"op": "matmul", "m": 9, "n": 64, "k": 8, "epilogue": ["bias", "gelu"]})",
                    R"({"op": "matmul", "m": 9, "n": 33, "k": 72, "dtype": "i8", "out": "i32"})"));

INSTANTIATE_TEST_SUITE_P(
    Convolution, PeerCase,
    testing::Values(
        R"({"op": "conv1d", "n": 2, "l": 19, "ci": 5, "co": 8, "kernel": 3, "stride": 2, "pad": 1})",
        R"({"op": "conv2d", "n": 1, "h": 11, "w": 9, "ci": 6, "co": 10, "kernel": "3x2", "pad": 1})",
        R"({"op": "conv2d", "n": 2, "h": 9, "w": 9, "ci": 16, "co": 32, "kernel": [3, 3], "pad": [1, 1],
            "layout": "nchw"})",
        R"({"op": "conv2d", "n": 1, "h": 9, "w": 9, "ci": 8, "co": 12, "kernel": 3, "groups": 4})",
        R"({"op": "conv2d", "n": 1, "h": 9, "w": 9, "ci": 8, "co": 12, "kernel": 3, "groups": 4,
            "layout": "nchw"})",
        R"({"op": "conv2d", "n": 1, "h": 14, "w": 14, "ci": 4, "co": 4, "kernel": 3, "dilation": 2,
            "pad": 2, "stride": 2})",
        R"({"op": "conv2d", "n": 1, "h": 5, "w": 5, "ci": 4, "co": 16, "kernel": 1,
            "epilogue": ["bias", "relu"]})",
        R"({"op": "conv3d", "n": 1, "d": 4, "h": 6, "w": 5, "ci": 3, "co": 4, "kernel": 3, "pad": 1})",
        R"({"op": "depthwise_conv2d", "n": 1, "h": 10, "w": 7, "c": 20, "kernel": 3, "stride": 2,
            "pad": 1})",
        R"({"op": "conv2d_transpose", "n": 1, "h": 4, "w": 5, "ci": 6, "co": 3, "kernel": 4,
            "stride": 2, "pad": 1})"));

INSTANTIATE_TEST_SUITE_P(
    Rows, PeerCase,
    testing::Values(R"({"op": "softmax", "m": 7, "n": 33})",
                    R"({"op": "layer_norm", "m": 7, "n": 33})",
                    R"({"op": "norm", "b": 3, "m": 8, "n": 9})",
                    R"({"op": "reduce", "shape": [6, 5, 40], "axes": [1, 2], "kind": "sum"})",
                    R"({"op": "elementwise", "shape": [7, 33], "fn": "relu"})",
                    R"({"op": "elementwise", "shape": [7, 33], "fn": "mul"})"));

TEST(Peers, OpenBlasMultiplies) {
  if (!has("openblas")) GTEST_SKIP() << "built without OpenBLAS";
  for (const char* flags :
       {"", R"(, "trans_a": true)", R"(, "trans_b": true)", R"(, "batch": 2)"}) {
    const auto able =
        check_on_all(std::string(R"({"op": "matmul", "m": 30, "n": 21, "k": 17)") + flags + "}", 2);
    EXPECT_THAT(able, testing::Contains("openblas"));
  }
}

TEST(Peers, SayWhatTheyHaveNot) {
  for (const PeerLibrary& library : libraries()) {
    SCOPED_TRACE(std::string(library.name()));
    std::string reason;
    EXPECT_EQ(library.prepare(R"({"op": "gather"})", 1, {}, reason), nullptr);
    EXPECT_EQ(reason, "no operator gather");
    EXPECT_EQ(library.prepare(R"({"op": "matmul", "m": 4, "n": 4, "k": 4, "w": {"dtype": "nf4"}})",
                              1, {}, reason),
              nullptr);
    EXPECT_EQ(reason, "no weight stored as nf4");
    EXPECT_EQ(library.prepare(R"({"op": "matmul", "m": "1..4", "n": 4, "k": 4})", 1, {}, reason),
              nullptr);
    EXPECT_EQ(reason, "'m' is \"1..4\"; peers take fixed sizes");
    EXPECT_EQ(library.prepare("{", 1, {}, reason), nullptr);
    EXPECT_THAT(reason, testing::HasSubstr("parse error"));
  }
}

TEST(Peers, RefuseOperandsOfAnotherSize) {
  for (const PeerLibrary& library : libraries()) {
    NaiveCase inputs = naive_case(json::parse(R"({"op": "matmul", "m": 4, "n": 4, "k": 32})"));
    json spec = {{"op", "matmul"}, {"m", 5}, {"n", 4}, {"k", 32}};
    // One of them takes weights in a form of their own alone.
    if (library.name() == "ggml") spec["w"] = {{"dtype", "i4"}, {"group", 32}, {"scale", "f16"}};
    std::string reason;
    EXPECT_EQ(library.prepare(spec.dump(), 1, inputs.for_peer(), reason), nullptr);
    EXPECT_EQ(reason, "operand A has 512 bytes; expected 640");
  }
}

TEST(Peers, NameTheirVersion) {
  for (const PeerLibrary& library : libraries()) {
    EXPECT_THAT(std::string(library.version()),
                testing::MatchesRegex("[0-9]+\\.[0-9]+\\.[0-9]+ .+"))
        << library.name();
  }
}

TEST(Peers, AFolderWithoutPluginsHasNone) {
  std::vector<std::string> problems;
  EXPECT_TRUE(PeerLibrary::discover({"/nonexistent"}, problems).empty());
  EXPECT_THAT(problems, testing::IsEmpty());
}

}  // namespace
}  // namespace tilewright::peers
