// The rows of the intrinsic table that are one multiply-add of f32. No sketch proposes them, since
// vector expressions compile to the same instructions.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <fstream>

#include "codegen/codegen.h"
#include "tests/codegen/support.h"

namespace tilewright {
namespace {

constexpr int kRows = 6;

// A tile of 6 rows by one vector of `lanes`, accumulated in registers over k. Its innermost loops
// are vectors, or the row where one is given.
Schedule tile(int lanes, const Intrinsic* row) {
  Schedule s(lower(make_workload(parse_spec("matmul:m=12,n=64,k=64"))));
  Block c = s.block("C");
  std::vector<Loop> loops = s.loops(c);
  std::vector<Loop> i = s.split(loops[0], {-1, kRows});
  std::vector<Loop> j = s.split(loops[1], {-1, lanes});
  std::vector<Loop> k = {loops[2]}, order = {i[0], j[0], i[1], j[1]};
  if (row) {
    k = s.split(k[0], {-1, 1});
    order.push_back(k[1]);
  }
  order.insert(order.begin() + 2, k[0]);
  s.reorder(order);
  s.decompose_reduction(c, k[0]);
  s.unroll(i[1]);
  if (row) {
    s.tensorize(j[1], std::string(row->name), std::string(row->computes));
  } else {
    s.vectorize(j[1]);
  }
  return s;
}

// Counts the instructions in the kernel's compiled assembly whose mnemonics begin so.
int count_in_assembly(const KernelSource& source, const std::string& mnemonic) {
  const std::string file =
      testing::TempDir() + "tilewright_outer_product_" + std::to_string(getpid()) + ".c";
  std::ofstream(file) << source.code;
  std::string command = "cc -w -O3 -S -o -";
  for (const std::string& flag : source.flags) command += " " + flag;
  FILE* pipe = popen((command + " " + file).c_str(), "r");
  if (pipe == nullptr) return -1;
  int count = 0;
  std::array<char, 4096> line;
  while (std::fgets(line.data(), line.size(), pipe)) {
    const std::string text = line.data();
    const size_t first = text.find_first_not_of(" \t");
    if (first != std::string::npos && text.compare(first, mnemonic.size(), mnemonic) == 0) ++count;
  }
  EXPECT_EQ(pclose(pipe), 0) << command << "\n" << source.code;
  std::remove(file.c_str());
  return count;
}

TEST(OuterProduct, VectorsCompileToTheInstructionOfTheRow) {
  for (const char* name : {"avx512.vfmadd231ps", "avx2.vfmadd231ps"}) {
    const Intrinsic* row = find_intrinsic(name);
    ASSERT_NE(row, nullptr) << name;
    const int lanes = static_cast<int>(row->semantics().extents[0]);
    const Target target = Target::parse(lanes == 16 ? "avx512" : "avx2");
    const KernelSource by_row = generate_c(tile(lanes, row).module(), target);
    const KernelSource by_vectors = generate_c(tile(lanes, nullptr).module(), target);
    const int products = count_in_assembly(by_row, "vfmadd");
    EXPECT_EQ(products % kRows, 0) << name;
    EXPECT_GE(products, kRows) << name;
    // The compiler may repeat the loop's body in either variant.
    const int same = count_in_assembly(by_vectors, "vfmadd");
    EXPECT_EQ(same % kRows, 0) << name;
    EXPECT_GE(same, kRows) << name;
    EXPECT_EQ(count_in_assembly(by_vectors, "vmulps"), 0) << name;
    EXPECT_EQ(count_in_assembly(by_vectors, "vaddps"), 0) << name;
    // A multiply-add may take an element of memory for all lanes. A compiler uses that in vector
    // code, but not in the row's text.
    EXPECT_LE(count_in_assembly(by_vectors, "v") * products, count_in_assembly(by_row, "v") * same)
        << name;
  }
}

}  // namespace
}  // namespace tilewright
