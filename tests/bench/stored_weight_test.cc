// Peers that take weights in a form of their own, beside plain loops over the same operands.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <random>

#include "runtime/peers/peer_library.h"

namespace tilewright::peers {
namespace {

const PeerLibrary* library_named(const std::string& name) {
  static const std::vector<PeerLibrary> all = [] {
    std::vector<std::string> problems;
    return PeerLibrary::discover({std::string(TILEWRIGHT_BINARY_DIR) + "/peers"}, problems);
  }();
  for (const PeerLibrary& library : all) {
    if (library.name() == name) return &library;
  }
  return nullptr;
}

// An exact half from a number that is one.
uint16_t half(float value) {
  if (value == 0) return 0;
  const auto bits = std::bit_cast<uint32_t>(value);
  return static_cast<uint16_t>((bits >> 16 & 0x8000) | ((bits >> 23 & 0xff) - 127 + 15) << 10 |
                               (bits >> 13 & 0x3ff));
}

// A product of m rows with a stored weight, as a peer gets it.
struct Case {
  int m, n, k, group;
  std::string dtype, scale = "f16", zero = "none", in = "f32", out = "f32", offset = "none";
  std::vector<float> a = {};
  std::vector<int> codes = {};  // [k, n]: as they are stored, in as many bits
  std::vector<float> scales = {};
  std::vector<int> zeros = {};      // [groups, n]
  std::vector<float> offsets = {};  // [groups, n]

  int bits() const { return dtype.back() == '8' ? 8 : 4; }
  int groups() const { return (k + group - 1) / group; }
  int scale_at(int row, int column) const { return row / group * n + column; }

  // The value of an element's code, before zero point and scale.
  double code_value(int code) const {
    static constexpr double kF4[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    if (dtype == "f4e2m1") return code < 8 ? kF4[code] : -kF4[code - 8];
    const int top = 1 << (bits() - 1);
    return dtype[0] == 'i' && code >= top ? code - 2 * top : code;
  }
  double value(int row, int column) const {
    const int at = scale_at(row, column);
    return (code_value(codes[row * n + column]) - (zeros.empty() ? 0 : zeros[at])) * scales[at] +
           (offsets.empty() ? 0 : offsets[at]);
  }
  std::vector<double> result() const {
    std::vector<double> c(static_cast<size_t>(m * n));
    for (int i = 0; i < m; ++i) {
      for (int j = 0; j < n; ++j) {
        for (int l = 0; l < k; ++l) c[i * n + j] += a[i * k + l] * value(l, j);
      }
    }
    return c;
  }
  // How far activations rounded to 8 bits, one scale for `block` of them, may move a result: half a
  // step of each, and what rounding the scale to f16 adds.
  double rounding_bound(int row, int column, int block) const {
    double bound = 0;
    for (int first = 0; first < k; first += block) {
      double largest = 0, weight = 0;
      for (int l = first; l < std::min(k, first + block); ++l) {
        largest = std::max(largest, std::abs(double{a[row * k + l]}));
        weight += std::abs(value(l, column));
      }
      bound += largest * weight * (0.5 / 127 + 1.0 / 1024);
    }
    return bound;
  }
  std::string spec() const {
    return R"({"op": "matmul", "m": )" + std::to_string(m) + R"(, "n": )" + std::to_string(n) +
           R"(, "k": )" + std::to_string(k) + R"(, "dtype": ")" + in + R"(", "out": ")" + out +
           R"(", "w": {"dtype": ")" + dtype + R"(", "group": )" + std::to_string(group) +
           R"(, "scale": ")" + scale + R"(", "zero": ")" + zero + R"(", "offset": ")" + offset +
           R"("}})";
  }
};

std::vector<unsigned char> packed(const std::vector<int>& codes, int bits) {
  if (bits == 8) return {codes.begin(), codes.end()};
  std::vector<unsigned char> bytes((codes.size() + 1) / 2);
  for (size_t i = 0; i < codes.size(); ++i) {
    bytes[i / 2] = static_cast<unsigned char>(bytes[i / 2] | codes[i] << (i % 2 * 4));
  }
  return bytes;
}

std::vector<unsigned char> encoded(const Case& given, const std::vector<float>& values,
                                   const std::string& type) {
  std::vector<unsigned char> bytes;
  for (float value : values) {
    const auto bits = std::bit_cast<uint32_t>(value);
    unsigned char stored[4];
    size_t size = 4;
    if (type == "e8m0") {
      stored[0] = static_cast<unsigned char>(bits >> 23);
      size = 1;
    } else if (type == "f16" || type == "bf16") {
      const auto word = static_cast<uint16_t>(type == "f16" ? half(value) : bits >> 16);
      std::memcpy(stored, &word, size = 2);
    } else if (type == "i8") {
      stored[0] = static_cast<unsigned char>(static_cast<int8_t>(value));
      size = 1;
    } else {
      EXPECT_EQ(type, "f32") << given.spec();
      std::memcpy(stored, &value, size);
    }
    bytes.insert(bytes.end(), stored, stored + size);
  }
  return bytes;
}

// The peer's result, and in `implementation` what ran; empty where it refuses, with the reason.
std::vector<float> run(const PeerLibrary& library, const Case& given, int threads,
                       std::string& implementation) {
  auto a = encoded(given, given.a, given.in), scales = encoded(given, given.scales, given.scale);
  auto codes = packed(given.codes, given.bits()), zeros = packed(given.zeros, given.bits());
  auto offsets = encoded(given, given.offsets, given.offset);
  std::vector<uint16_t> narrow(given.m * given.n, 0x7fff);
  std::vector<float> c(given.m * given.n, NAN);
  void* output = given.out == "f32" ? static_cast<void*>(c.data()) : narrow.data();
  std::vector<TilewrightPeerOperand> operands = {
      {"A", a.data(), a.size()},
      {"B", codes.data(), codes.size()},
      {"B.scale", scales.data(), scales.size()},
      {"C", output, c.size() * (given.out == "f32" ? 4 : 2)}};
  if (!zeros.empty()) operands.push_back({"B.zero", zeros.data(), zeros.size()});
  if (!offsets.empty()) operands.push_back({"B.offset", offsets.data(), offsets.size()});
  std::string reason;
  auto problem = library.prepare(given.spec(), threads, operands, reason);
  if (problem == nullptr) {
    implementation = reason;
    return {};
  }
  implementation = problem->implementation();
  problem->run();
  library.quiesce();
  problem->run();  // again, from cold threads
  library.quiesce();
  if (given.out == "bf16") {
    for (size_t i = 0; i < c.size(); ++i) c[i] = std::bit_cast<float>(uint32_t{narrow[i]} << 16);
  }
  return c;
}

// Activations that 8 bits hold exactly: integers, in every 32 of them one of 127.
std::vector<float> byte_activations(int count, std::mt19937& random) {
  std::vector<float> a;
  for (int i = 0; i < count; ++i) {
    a.push_back(i % 32 == 5 ? 127 : static_cast<float>(static_cast<int>(random() % 255) - 127));
  }
  return a;
}

Case make_case(int m, int n, int k, int group, const std::string& dtype) {
  std::mt19937 random(static_cast<unsigned>(m * 31 + n * 7 + k));
  Case made{.m = m, .n = n, .k = k, .group = group, .dtype = dtype};
  made.a = byte_activations(m * k, random);
  for (int i = 0; i < k * n; ++i)
    made.codes.push_back(static_cast<int>(random() >> 8) & ((1 << made.bits()) - 1));
  for (int i = 0; i < made.groups() * n; ++i) {
    made.scales.push_back(std::ldexp(1.0f, static_cast<int>(random() % 5) - 3));
  }
  return made;
}

// Scales and minima that Q4_K's 6 bits hold: s is of 1 … 63 sixty-fourths, and s * zero as well.
void use_exact_minima(Case& given) {
  given.zero = "u4";
  given.dtype = "u4";
  for (int group = 0; group < given.groups(); ++group) {
    for (int j = 0; j < given.n; ++j) {
      const int kind = (group + j) % 4;  // of 8 groups in a row each appears, so the largest does
      const int steps[] = {63, 21, 9, 5}, zeros[] = {1, 3, 7, 0};
      given.scales[group * given.n + j] = static_cast<float>(steps[kind]) / 64;
      given.zeros.push_back(zeros[kind]);
    }
  }
}

// Offsets of both signs in f16, of few digits.
void use_offsets(Case& given) {
  given.offset = "f16";
  for (size_t i = 0; i < given.scales.size(); ++i) {
    given.offsets.push_back(static_cast<float>(static_cast<int>(i % 5) - 3) / 8);
  }
}

// For operands of few digits, whose products are exact: what f32 may round off of the sums.
void expect_exact(const Case& given, const std::vector<float>& c) {
  const std::vector<double> expected = given.result();
  ASSERT_EQ(c.size(), expected.size());
  for (int i = 0; i < given.m * given.n; ++i) {
    double limit = given.out == "bf16" ? std::abs(expected[i]) / 256 : 0;
    for (int l = 0; l < given.k; ++l) {
      limit += 1e-6 * std::abs(given.a[i / given.n * given.k + l] * given.value(l, i % given.n));
    }
    EXPECT_NEAR(c[i], expected[i], limit) << i << " of " << given.spec();
  }
}

class GgmlCase : public testing::Test {
 protected:
  void SetUp() override {
    ggml_ = library_named("ggml");
    if (ggml_ == nullptr) GTEST_SKIP() << "built without ggml (scripts/peer_ggml)";
  }
  const PeerLibrary* ggml_ = nullptr;
};

TEST_F(GgmlCase, ComputesWhatPlainLoopsCompute) {
  for (const char* dtype : {"i4", "i8", "f4e2m1"}) {
    for (int m : {1, 5, 17}) {
      for (int n : {6, 24}) {  // rows that are repacked by eights, and rows that cannot be
        for (int group : {32, 64, 320}) {
          Case given = make_case(m, n, 320, group, dtype);
          if (given.dtype == "f4e2m1") given.scale = "e8m0";
          std::string ran;
          const auto c = run(*ggml_, given, 1 + m % 2, ran);
          ASSERT_FALSE(c.empty()) << ran;
          EXPECT_THAT(ran, testing::HasSubstr("activations rounded to q8_0"));
          expect_exact(given, c);
        }
      }
    }
  }
}

TEST_F(GgmlCase, ZeroPointsAreMinimaOfQ4K) {
  for (int m : {1, 6}) {
    for (int group : {32, 64}) {
      Case given = make_case(m, 16, 1024, group, "u4");
      use_exact_minima(given);
      std::string ran;
      const auto c = run(*ggml_, given, 2, ran);
      ASSERT_FALSE(c.empty()) << ran;
      EXPECT_THAT(ran, testing::HasSubstr("q4_K"));
      EXPECT_THAT(ran, testing::HasSubstr("6 bits"));
      expect_exact(given, c);
    }
  }
}

TEST_F(GgmlCase, OffsetsAreThoseOfQ41) {
  for (int m : {1, 6}) {
    for (int group : {32, 64}) {
      Case given = make_case(m, 16, 320, group, "u4");
      use_offsets(given);
      std::string ran;
      const auto c = run(*ggml_, given, 2, ran);
      ASSERT_FALSE(c.empty()) << ran;
      EXPECT_THAT(ran, testing::HasSubstr("q4_1"));
      expect_exact(given, c);
    }
  }
}

TEST_F(GgmlCase, NarrowActivationsAndResults) {
  for (const char* in : {"bf16", "i8"}) {
    Case given = make_case(3, 16, 64, 32, "i4");
    given.in = in;
    given.out = given.in == "i8" ? "f32" : in;
    std::string ran;
    const auto c = run(*ggml_, given, 1, ran);
    ASSERT_FALSE(c.empty()) << ran;
    expect_exact(given, c);
  }
}

TEST_F(GgmlCase, ActivationsAreRoundedToEightBitsAndNoMore) {
  Case given = make_case(2, 16, 512, 32, "i4");
  std::mt19937 random(3);
  for (float& value : given.a) value = static_cast<float>(random() % 20001) / 10000 - 1;
  std::string ran;
  const auto c = run(*ggml_, given, 1, ran);
  ASSERT_FALSE(c.empty()) << ran;
  const auto expected = given.result();
  double worst = 0;
  for (int i = 0; i < given.m; ++i) {
    for (int j = 0; j < given.n; ++j) {
      const double error = std::abs(c[i * given.n + j] - expected[i * given.n + j]);
      EXPECT_LE(error, given.rounding_bound(i, j, 32));
      worst = std::max(worst, error);
    }
  }
  EXPECT_GT(worst, 1e-4) << "they were not rounded at all";
}

TEST_F(GgmlCase, SaysWhatItHasNot) {
  auto reason_of = [&](Case given) {
    std::string reason;
    EXPECT_TRUE(run(*ggml_, given, 1, reason).empty()) << given.spec();
    return reason;
  };
  Case wide = make_case(1, 8, 64, 32, "i4");
  wide.scale = "f32";
  EXPECT_EQ(reason_of(wide),
            "no i4 with w.scale=f32, w.zero=none; q4_0 has w.scale=f16, w.zero=none");
  EXPECT_EQ(reason_of(make_case(1, 8, 64, 16, "i4")), "no groups that are not multiples of 32");
  EXPECT_EQ(reason_of(make_case(1, 8, 48, 32, "i4")), "no k that 32 does not divide");
  Case offsets = make_case(1, 8, 64, 32, "i4");
  use_offsets(offsets);
  EXPECT_EQ(reason_of(offsets),
            "no i4 with w.scale=f16, w.zero=none, w.offset=f16; q4_0 has w.scale=f16, w.zero=none");
  Case minima = make_case(1, 8, 256, 32, "u4");
  use_exact_minima(minima);
  minima.scales[3] = -1;
  EXPECT_EQ(reason_of(minima), "no scales below 0 beside zero points");
}

TEST(OneDnn, WidensStoredWeights) {
  const PeerLibrary* onednn = library_named("onednn");
  if (onednn == nullptr) GTEST_SKIP() << "built without oneDNN (scripts/peer_onednn)";
  for (const char* dtype : {"u4", "i4", "u8", "i8"}) {
    for (const char* in : {"f32", "bf16"}) {
      for (int m : {1, 9}) {
        Case given = make_case(m, 48, 128, 32, dtype);
        given.in = in;
        if (given.dtype[0] == 'u') {
          given.zero = dtype;
          for (int i = 0; i < given.groups() * given.n; ++i) given.zeros.push_back(i * 5 % 16);
        }
        std::string ran;
        const auto c = run(*onednn, given, 1, ran);
        if (c.empty() && given.in == "bf16" && !__builtin_cpu_supports("avx512bf16")) {
          EXPECT_EQ(ran, "no such weight beside bf16 here");
          continue;
        }
        ASSERT_FALSE(c.empty()) << ran;
        EXPECT_THAT(ran, testing::Not(testing::HasSubstr("ref"))) << given.spec();
        expect_exact(given, c);
      }
    }
  }
}

}  // namespace
}  // namespace tilewright::peers
