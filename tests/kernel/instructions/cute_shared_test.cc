// Operands in shared memory, their descriptors, and the swizzles of TMA tiles, against CuTe's
// (tests/golden/cute/shared.txt, printed by tests/foreign/cute/shared.cc).
#include <gtest/gtest.h>

#include <map>
#include <optional>

#include "kernel/instructions/wgmma_layout.h"
#include "kernel/tensor_map.h"
#include "tests/golden.h"
#include "tests/kernel/instructions/cute_tables.h"

namespace tilewright {
namespace {

using test::CuteHash;
using test::CuteLayout;
using test::expect_same_table;
using test::golden_words;

using CuteShared = test::CuteTables;

// XORs `bits` bits from `base` on with those `shift` above: CuTe's Swizzle.
struct CuteSwizzle {
  int bits, base, shift;
  int64_t operator()(int64_t at) const {
    const int64_t mask = ((int64_t{1} << bits) - 1) << base;
    return at ^ (at >> shift & mask);
  }
};

CuteSwizzle swizzle_of(const std::vector<std::string>& line) {
  return {std::stoi(line.at(2)), std::stoi(line.at(3)), std::stoi(line.at(4))};
}

// "atom NAME ELEMENT_BITS SPAN_BYTES MAJOR X K", "descriptor NAME ELEMENT_BITS SPAN_BYTES MAJOR ROWS".
struct Operand {
  int bits, span;
  bool along_k;
  WgmmaSwizzle swizzle;

  explicit Operand(const std::vector<std::string>& line)
      : bits(std::stoi(line.at(2))), span(std::stoi(line.at(3))), along_k(line.at(4) == "k"),
        swizzle(swizzle_of_span(span).value_or(WgmmaSwizzle::None)) {}
  int elements_of_span() const { return 8 * span / bits; }
};

// The address of an element of a tile whose atoms follow one another along x, then along k.
int64_t our_address(const Operand& o, int64_t rows, int64_t x, int64_t k) {
  const int64_t atom = 8 * o.span;
  if (o.along_k) {
    const WgmmaLayout layout{o.swizzle, true, 0, atom};
    return swizzled(o.swizzle, layout.place(o.bits, x, k % o.elements_of_span()) +
                                   k / o.elements_of_span() * rows * o.span);
  }
  const int64_t next_terms = rows / o.elements_of_span() * atom;
  const bool plain = o.swizzle == WgmmaSwizzle::None;
  const WgmmaLayout layout{o.swizzle, false, plain ? next_terms : atom, plain ? atom : next_terms};
  return swizzled(o.swizzle, layout.place(o.bits, x, k));
}

// Four lines: the atom, its swizzle and layout in elements, and the hash of both together.
void expect_atom(const std::vector<std::vector<std::string>>& lines, size_t at) {
  const Operand operand(lines[at]);
  const CuteSwizzle swizzle = swizzle_of(lines.at(at + 1));
  const CuteLayout plain(lines.at(at + 2).at(2));
  const int64_t rows = std::stoi(lines[at].at(5)), terms = std::stoi(lines[at].at(6));
  ASSERT_EQ(plain.extent(0), rows);
  ASSERT_EQ(plain.extent(1), terms);
  CuteHash hash;
  int differ = 0;
  for (int64_t k = 0; k < terms; ++k) {
    for (int64_t x = 0; x < rows; ++x) {
      const int64_t theirs = swizzle(plain(x, k));
      hash.add(theirs);
      differ += our_address(operand, rows, x, k) != theirs * operand.bits / 8;
    }
  }
  expect_same_table(rows * terms, differ);
  EXPECT_EQ(hash.value(), std::stoull(lines.at(at + 3).at(2), nullptr, 16));
}

// The fields of a descriptor, offsets in 16 bytes.
struct Fields {
  int type, leading, stride;
};
Fields fields_of(const WgmmaLayout& layout) {
  const uint64_t bits = wgmma_descriptor(0, layout);
  return {static_cast<int>(bits >> 62), static_cast<int>(bits >> 16 & 0x3fff),
          static_cast<int>(bits >> 32 & 0x3fff)};
}

// "step X K TYPE LEADING STRIDE START": whether our descriptor says the same.
bool same_step(const Operand& o, int64_t rows, const CuteLayout& tile,
               const std::vector<std::string>& line) {
  const int64_t x0 = std::stoi(line.at(1)), k0 = std::stoi(line.at(2)), terms = 256 / o.bits;
  // A step lies as the first one does, from its own start on.
  bool same = true;
  for (int64_t x = 0; x < rows; ++x) same &= tile(x0 + x, k0) - tile(x0, k0) == tile(x, 0);
  for (int64_t k = 0; k < terms; ++k) same &= tile(x0, k0 + k) - tile(x0, k0) == tile(0, k);
  const IndexMap bytes = IndexMap::make(
      1, [&](const std::vector<Var>& e) { return std::vector<Expr>{e[0] * (o.bits / 8)}; });
  auto layout = derive_wgmma_layout(o.bits, o.swizzle, compose(bytes, tile.map()),
                                    static_cast<int>(rows), static_cast<int>(terms));
  if (!same) return false;
  if (!layout || layout->along_k != o.along_k) return false;
  const Fields ours = fields_of(*layout);
  // An offset that no element of the operand is reached by may have any value.
  const bool swizzled = o.swizzle != WgmmaSwizzle::None;
  const bool one_span = rows * o.bits / 8 <= o.span;
  const bool leads = o.along_k ? !swizzled : !(swizzled && one_span);
  const bool strides = !o.along_k || rows > 8;
  return ours.type == std::stoi(line.at(3)) && (!leads || ours.leading == std::stoi(line.at(4))) &&
         (!strides || ours.stride == std::stoi(line.at(5))) &&
         tile(x0, k0) * o.bits / 8 == std::stoi(line.at(6));
}

TEST_F(CuteShared, OperandsLieAsTheAtomsSay) {
  const auto lines = golden_words("cute/shared.txt");
  int atoms = 0;
  for (size_t at = 0; at < lines.size(); ++at) {
    if (lines[at][0] != "atom") continue;
    SCOPED_TRACE(lines[at][1]);
    ++atoms;
    expect_atom(lines, at);
  }
  EXPECT_EQ(atoms, 16);
}

TEST_F(CuteShared, DescriptorsHaveTheSameFields) {
  const auto lines = golden_words("cute/shared.txt");
  int tiles = 0, steps = 0;
  for (size_t at = 0; at < lines.size(); ++at) {
    if (lines[at][0] != "descriptor") continue;
    const Operand operand(lines[at]);
    const CuteLayout tile(lines.at(at + 1).at(2));
    EXPECT_EQ(tile.hash(), std::stoull(lines.at(at + 1).at(3), nullptr, 16));
    ++tiles;
    SCOPED_TRACE(lines[at][1]);
    int compared = 0, differ = 0;
    for (size_t s = at + 2; s < lines.size() && lines[s][0] == "step"; ++s, ++compared) {
      differ += !same_step(operand, std::stoi(lines[at].at(5)), tile, lines[s]);
    }
    expect_same_table(compared, differ);
    steps += compared;
  }
  EXPECT_EQ(tiles, 24);
  EXPECT_GT(steps, 200);
}

TEST_F(CuteShared, TmaTilesHaveTheSameSwizzles) {
  const std::map<std::string, std::pair<TensorSwizzle, WgmmaSwizzle>> ours = {
      {"tma.128", {TensorSwizzle::B128, WgmmaSwizzle::Bytes128}},
      {"tma.64", {TensorSwizzle::B64, WgmmaSwizzle::Bytes64}},
      {"tma.32", {TensorSwizzle::B32, WgmmaSwizzle::Bytes32}}};
  size_t seen = 0;
  for (const auto& line : golden_words("cute/shared.txt")) {
    if (line[0] != "swizzle" || !ours.count(line[1])) continue;
    ++seen;
    const CuteSwizzle theirs = swizzle_of(line);
    SCOPED_TRACE(line[1]);
    const auto [of_copies, of_products] = ours.at(line[1]);
    constexpr int64_t kAddresses = 4096;
    int differ = 0;
    for (int64_t address = 0; address < kAddresses; ++address) {
      differ += swizzled(of_copies, address) != theirs(address);
      differ += swizzled(of_products, address) != theirs(address);
    }
    expect_same_table(2 * kAddresses, differ);
  }
  EXPECT_EQ(seen, ours.size());
}

}  // namespace
}  // namespace tilewright
