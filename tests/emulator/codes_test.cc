// Registers of elements that are made of codes in a word, under emulation, for every place in the word.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "emulator/emulator.h"
#include "ir/bits.h"
#include "kernel/prelude/cuda_prelude.h"

namespace tilewright {
namespace {

using LaunchBuffer = EmulatedLaunch::Buffer;

struct Codes {
  ElemType from, to;
};

// For devices that convert 8-bit floats by bits, and for those that have an instruction.
class RegistersOfCodes : public testing::TestWithParam<std::tuple<Codes, int>> {};

// Words that have every byte at every place, and neighbours of all kinds.
std::vector<uint32_t> words() {
  std::vector<uint32_t> all;
  for (uint32_t i = 0; i < 256; ++i) {
    all.push_back(i | (255 - i) << 8 | (i * 37 + 11) % 256 << 16 | (i * 101 + 7) % 256 << 24);
  }
  return all;
}

// The expected number in lane `lane` of the register.
double want(const Codes& c, uint32_t word, int shift, int lane, int zero) {
  const int bits = bits_of(c.from), width = bits_of(c.to);
  const uint32_t code = word >> (shift + lane * width) & ((1u << bits) - 1);
  const double stored = from_bits(c.from, code);
  // An entry of a table is rounded by itself.
  const double value = (is_in_cuda_table(c.from) ? round_to(c.to, stored) : stored) - zero;
  return is_float(c.to) ? round_to(c.to, value)
                        : from_bits(c.to, static_cast<uint64_t>(static_cast<int64_t>(value)) &
                                              ((1u << width) - 1));
}

TEST_P(RegistersOfCodes, AreTheElementsLessTheZeroPoint) {
  const Codes c = std::get<0>(GetParam());
  EmulatorOptions options;
  options.compute_capability = std::get<1>(GetParam());
  const int bits = bits_of(c.from), width = bits_of(c.to), places = width / bits;
  const std::string name =
      fmt::format("tw_{}x{}_{}", to_string(c.to), 32 / width, to_string(c.from));
  const std::vector<uint32_t> in = words();
  for (int zero : {0, 1, (1 << std::min(bits, 4)) - 1}) {
    std::vector<uint32_t> out(in.size() * static_cast<size_t>(places));
    const std::string text = fmt::format(
        "extern \"C\" __global__ void kernel(TW_IN(unsigned) A, TW_OUT(unsigned) C) {{\n"
        "const int t = threadIdx.x;\n"
        "for (int i = t; i < {}; i += 32)\n"
        "for (int s = 0; s < {}; ++s) C[i * {} + s] = {}(A[i], s * {}, {});\n}}\n",
        in.size(), places, places, name, bits, zero);
    const EmulatedLaunch launch{
        "kernel", {1, 1, 1}, {32, 1, 1}, 1024, {LaunchBuffer{0}, LaunchBuffer{1}}};
    std::vector<uint32_t> words = in;
    const EmulatorResult result =
        emulate(text, {launch},
                {{"A", words.data(), static_cast<int64_t>(words.size() * 4)},
                 {"C", out.data(), static_cast<int64_t>(out.size() * 4), false}},
                options);
    ASSERT_TRUE(result.ok()) << result.fault->to_string();
    for (size_t i = 0; i < in.size(); ++i) {
      for (int s = 0; s < places; ++s) {
        for (int lane = 0; lane < 32 / width; ++lane) {
          const uint32_t got =
              out[i * static_cast<size_t>(places) + static_cast<size_t>(s)] >> lane * width;
          const double value =
              from_bits(c.to, got & static_cast<uint32_t>((uint64_t{1} << width) - 1));
          const double wanted = want(c, in[i], s * bits, lane, zero);
          if (std::isnan(wanted)) {
            EXPECT_TRUE(std::isnan(value));
          } else {
            ASSERT_EQ(value, wanted) << name << " of " << std::hex << in[i] << " at " << s * bits
                                     << ", lane " << lane << ", zero " << zero;
          }
        }
      }
    }
  }
}

std::vector<Codes> all_codes() {
  std::vector<Codes> all;
  for (ElemType from : {ElemType::u8, ElemType::i8, ElemType::u4, ElemType::i4, ElemType::u2,
                        ElemType::i2, ElemType::u1, ElemType::i1, ElemType::f8e4m3,
                        ElemType::f8e5m2, ElemType::f4e2m1, ElemType::nf4}) {
    for (ElemType to : {ElemType::f16, ElemType::bf16, ElemType::i8, ElemType::i4}) {
      if (has_code_registers(from, to)) all.push_back({from, to});
    }
  }
  return all;
}

std::vector<std::tuple<Codes, int>> codes_on_devices() {
  std::vector<std::tuple<Codes, int>> all;
  for (const Codes& c : all_codes()) {
    all.emplace_back(c, 80);
    if (c.from == ElemType::f8e4m3) all.emplace_back(c, 90);
  }
  return all;
}

std::string name_of_codes(const testing::TestParamInfo<std::tuple<Codes, int>>& info) {
  const auto& [c, capability] = info.param;
  return fmt::format("{}_as_{}_on_sm_{}", to_string(c.from), to_string(c.to), capability);
}

INSTANTIATE_TEST_SUITE_P(Types, RegistersOfCodes, testing::ValuesIn(codes_on_devices()),
                         name_of_codes);

}  // namespace
}  // namespace tilewright
