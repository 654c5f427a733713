#include "tests/kernels/sparse_wgmma_kernels.h"

#include <fmt/format.h>

#include <cstring>
#include <vector>

#include "runtime/tensor/element.h"

namespace tilewright::test {
namespace {

constexpr int kSparseWgmmaKernelsRows = 64, kLanes = 128, kSparsePiece = 16;

int bytes_of(const SparseWgmmaCase& c) { return c.row->operand_bits() / 8; }

const char* stored_type(const SparseWgmmaCase& c) {
  return bytes_of(c) == 1 ? "unsigned char" : bytes_of(c) == 2 ? "unsigned short" : "unsigned";
}

const char* sum_type(const SparseWgmmaCase& c) {
  const ElemType acc = c.row->acc;
  return acc == ElemType::f16 ? "unsigned" : is_float(acc) ? "float" : "int";
}

// Rows of `terms` elements from global to shared memory, under the swizzle of as many bytes.
std::string copy(const char* from, const SparseWgmmaCase& c, int rows, int terms) {
  const int piece = kSparsePiece / bytes_of(c);
  const int bits = terms * bytes_of(c) == 64 ? 2 : 1;
  const int base = piece == 4 ? 2 : piece == 8 ? 3 : 4;
  return fmt::format(
      "  for (int i = threadIdx.x; i < {}; i += 128) {}s[tw_swizzle<{}, {}, 3>(i)] = {}[i];\n",
      rows * terms, from, bits, base, from);
}

std::string load_a(const SparseWgmmaCase& c) {
  const int packed = 4 / bytes_of(c), kept = c.row->kept();
  std::string word;
  for (int part = 0; part < packed; ++part) {
    word += fmt::format("{}(unsigned)A[at + {}] << {}", part ? " | " : "", part,
                        part * 8 * bytes_of(c));
  }
  return fmt::format(
      "  unsigned a[4];\n"
      "  for (int r = 0; r < 4; ++r) {{\n"
      "    const int at = (row + r % 2 * 8) * {} + lane % 4 * {} + r / 2 * {};\n"
      "    a[r] = {};\n  }}\n",
      kept, packed, 4 * packed, word);
}

double number(ElemType type, int i) {
  const int value = static_cast<int>(static_cast<unsigned>(i) * 2654435761u >> 16) % 5;
  return static_cast<double>(type == ElemType::u8 ? value : value - 2);
}

// Where kept element r of row i stands among its neighbours: every choice comes up.
int place(const Instruction& row, int i, int r) {
  static constexpr int kPairs[6][2] = {{0, 1}, {0, 2}, {0, 3}, {1, 2}, {1, 3}, {2, 3}};
  const int group = r / row.keep;
  return row.keep == 1 ? (i + group) % 2 : kPairs[(i * 5 + group) % 6][r % 2];
}

// The words of all lanes: those of 16 bits a row are of two rows, eight apart, and of half of the
// terms; the others of one row. Lanes that the selector leaves out have noise.
std::vector<uint32_t> metadata(const SparseWgmmaCase& c) {
  const Instruction& row = *c.row;
  std::vector<uint32_t> words(kLanes, 0xffffffffu);
  for (int lane = 0; lane < kLanes; ++lane) {
    const int first = lane / 32 * 16 + lane % 32 / 4, quarter = lane % 4;
    auto bits = [&](int i, int r) {
      const auto at = static_cast<uint32_t>(place(row, i, r));
      return row.keep == 1 ? (at == 0 ? 0b0100u : 0b1110u) : at;
    };
    uint32_t& word = words[static_cast<size_t>(lane)];
    if (bytes_of(c) == 1) {
      word = 0;
      for (int e = 0; e < 16; ++e) {
        word |= bits(first + quarter % 2 * 8, quarter / 2 * 16 + e) << 2 * e;
      }
    } else if (quarter / 2 == c.selector) {
      const int in_half = row.keep == 1 ? 4 : 8, width = 16 / in_half;
      word = 0;
      for (int e = 0; e < 2 * in_half; ++e) {
        word |= bits(first + e / in_half * 8, quarter % 2 * in_half + e % in_half) << width * e;
      }
    }
  }
  return words;
}

}  // namespace

std::string SparseWgmmaCase::to_string() const {
  return fmt::format("{} selector {}{}", row->name, selector, a_in_registers ? "" : " A shared");
}

std::string sparse_wgmma_kernel(const SparseWgmmaCase& c) {
  const Instruction& row = *c.row;
  const int n = row.n, kept = row.kept();
  const int halves = row.acc == ElemType::f16 ? 2 : 1;
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(128)\n"
      "wgmma(TW_IN({0}) A, TW_IN({0}) B, TW_IN(unsigned) E, TW_OUT({1}) C) {{\n"
      "  TW_SHARED({0}, As, 0, {2});\n"
      "  TW_SHARED({0}, Bs, 4096, {3});\n"
      "{4}{5}"
      "  tw_fence_async();\n"
      "  __syncthreads();\n"
      "  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;\n"
      "  const unsigned e = E[threadIdx.x];\n"
      "{6}"
      "  {1} d[{7}];\n"
      "  tw_wgmma_fence();\n"
      "  tw_wgmma_{8}<{9}{10}>(d, {11},\n"
      "      tw_wgmma_operand<64>(Bs, 16, 512), e, 0);\n"
      "  tw_wgmma_commit();\n"
      "  tw_wgmma_wait<0>();\n"
      "  tw_wgmma_hold(d);\n"
      "#pragma unroll\n"
      "  for (int r = 0; r < {7}; ++r) {{\n"
      "    const int s = {12} * r, i = row + s / 2 % 2 * 8, j = s / 4 * 8 + lane % 4 * 2 + s % 2;\n"
      "    C[(i * {13} + j) / {12}] = d[r];\n"
      "  }}\n"
      "}}\n",
      stored_type(c), sum_type(c), kSparseWgmmaKernelsRows * kept, n * row.k,
      copy("A", c, kSparseWgmmaKernelsRows, kept), copy("B", c, n, row.k),
      c.a_in_registers ? load_a(c) : "", row.sum_registers(), row.name, c.selector,
      row.may_be_transposed() ? ", 0, 0" : "",
      c.a_in_registers ? "a" : "tw_wgmma_operand<32>(As, 16, 256)", halves, n);
}

SparseWgmmaRun run_sparse_wgmma(const SparseWgmmaCase& c, const std::string& kernel,
                                void (*words)(std::vector<uint32_t>&)) {
  const Instruction& row = *c.row;
  const int n = c.row->n, k = c.row->k, kept = row.kept(), bytes = bytes_of(c);
  auto fill = [&](ElemType type, int count, int salt) {
    std::vector<unsigned char> data(static_cast<size_t>(count * bytes));
    for (int i = 0; i < count; ++i) {
      const uint64_t bits = encode_element(type, number(type, i + salt));
      std::memcpy(data.data() + i * bytes, &bits, static_cast<size_t>(bytes));
    }
    return data;
  };
  const ElemType of_a = row.operand, of_b = row.b_operand();
  std::vector<unsigned char> a = fill(of_a, kSparseWgmmaKernelsRows * kept, 0),
                             b = fill(of_b, n * k, 3);
  std::vector<uint32_t> e = metadata(c);
  if (words) words(e);
  const int sum_bytes = bits_of(row.acc) / 8;
  std::vector<unsigned char> sums(static_cast<size_t>(kSparseWgmmaKernelsRows * n * sum_bytes));
  EmulatedLaunch launch{"wgmma", {1, 1, 1}, {128, 1, 1}, 4096 + int64_t{n} * k * bytes, {}};
  for (int buffer = 0; buffer < 4; ++buffer) {
    launch.arguments.emplace_back(EmulatedLaunch::Buffer{buffer});
  }
  auto size = [](const auto& v) { return static_cast<int64_t>(v.size() * sizeof(v[0])); };
  SparseWgmmaRun run{emulate(kernel, {launch},
                             {{"A", a.data(), size(a)},
                              {"B", b.data(), size(b)},
                              {"E", reinterpret_cast<unsigned char*>(e.data()), size(e)},
                              {"C", sums.data(), size(sums), false}},
                             {})};
  run.is_right = run.result.ok();
  for (int i = 0; i < kSparseWgmmaKernelsRows && run.is_right; ++i) {
    for (int j = 0; j < n; ++j) {
      double want = 0;
      for (int r = 0; r < kept; ++r) {
        const int at = r / row.keep * row.of + place(row, i, r);
        want += number(of_a, i * kept + r) * number(of_b, j * k + at + 3);
      }
      uint64_t bits = 0;
      std::memcpy(&bits, sums.data() + (i * n + j) * sum_bytes, static_cast<size_t>(sum_bytes));
      run.is_right &= decode_element(row.acc, bits) == want;
    }
  }
  return run;
}

}  // namespace tilewright::test
