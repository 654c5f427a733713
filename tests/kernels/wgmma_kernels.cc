#include "tests/kernels/wgmma_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "runtime/tensor/element.h"

namespace tilewright::test {
namespace {

constexpr int kWgmmaKernelsRows = 64, kStepBytes = 32, kPiece = 16;

int64_t up(int64_t n, int64_t multiple) { return (n + multiple - 1) / multiple * multiple; }

// The layout of an operand in shared memory, in elements.
struct Side {
  const WgmmaCase& c;
  int rows;
  bool across;

  int span() const { return c.span / c.bytes(); }
  int64_t count() const {
    return across ? up(rows, span()) * c.terms() : int64_t{rows} * c.terms();
  }
  // Where (x, k) stands.
  std::string place() const {
    const int bits = c.span == 128 ? 3 : c.span == 64 ? 2 : 1;
    const int piece = kPiece / c.bytes();
    const int base = piece == 4 ? 2 : piece == 8 ? 3 : 4;
    if (c.span == kPiece &&
        across) {  // core matrices of 8 terms by 8 rows, those of all rows first
      return fmt::format("(k / 8 * {0} + x / 8) * 64 + k % 8 * 8 + x % 8", up(rows, 8) / 8);
    }
    if (c.span == kPiece) {  // of 8 rows by 16 bytes, those of all terms first
      return fmt::format("(x / 8 * {0} + k / {1}) * {2} + x % 8 * {1} + k % {1}", c.terms() / piece,
                         piece, 8 * piece);
    }
    const std::string plain =
        across ? fmt::format("x / {0} * {1} + k * {0} + x % {0}", span(), span() * c.terms())
               : fmt::format("x * {} + k", c.terms());
    return fmt::format("tw_swizzle<{}, {}, 3>({})", bits, base, plain);
  }
  // From one instruction's terms to the next ones', in elements.
  int step() const {
    if (c.span == kPiece) return across ? static_cast<int>(up(rows, 8)) * 16 : 128 / c.bytes() * 2;
    return across ? 16 * span() : kStepBytes / c.bytes();
  }
  std::string offsets() const {  // in bytes
    const int pitch = 8 * c.span;
    if (c.span == kPiece && across) return fmt::format("{}, 128", up(rows, 8) / 8 * 128);
    if (c.span == kPiece) return fmt::format("128, {}", c.terms() / (kPiece / c.bytes()) * 128);
    return across ? fmt::format("{}, {}", span() * c.terms() * c.bytes(), pitch)
                  : fmt::format("16, {}", pitch);
  }
};

Side a_of(const WgmmaCase& c) { return {c, kWgmmaKernelsRows, c.a_across}; }
Side b_of(const WgmmaCase& c) { return {c, c.row->n, c.b_across}; }

const char* stored_type(const WgmmaCase& c) {
  return c.bytes() == 1 ? "unsigned char" : c.bytes() == 2 ? "unsigned short" : "unsigned";
}

bool has_halves(const WgmmaCase& c) { return c.row->acc == ElemType::f16; }

std::string copy(const char* from, const Side& s) {
  return fmt::format(
      "  for (int i = threadIdx.x; i < {}; i += 128) {{\n"
      "    const int x = i / {}, k = i % {};\n"
      "    {}s[{}] = {}[i];\n  }}\n",
      s.rows * s.c.terms(), s.c.terms(), s.c.terms(), from, s.place(), from);
}

// A's fragments of all instructions, from global memory: registers that are fenced with the sums.
std::string load_a(const WgmmaCase& c) {
  const int packed = c.row->packed();
  std::string word;
  for (int part = 0; part < packed; ++part) {
    word += fmt::format("{}(unsigned)A[at + {}] << {}", part ? " | " : "", part,
                        part * c.row->operand_bits());
  }
  return fmt::format(
      "  unsigned a[{0}][4];\n"
      "#pragma unroll\n"
      "  for (int s = 0; s < {0}; ++s) {{\n"
      "    for (int r = 0; r < 4; ++r) {{\n"
      "      const int at = (row + r % 2 * 8) * {1} + s * {2} + lane % 4 * {3} + r / 2 * {4};\n"
      "      a[s][r] = {5};\n    }}\n  }}\n",
      c.terms() / c.row->k, c.terms(), c.row->k, packed, 4 * packed, word);
}

}  // namespace

int WgmmaCase::terms() const {
  const bool along = !a_across || !b_across;
  return (span == kPiece || !along || span < kStepBytes ? 2 * kStepBytes : span) / bytes();
}

std::string WgmmaCase::to_string() const {
  return fmt::format("{} span {}{}{}{}", row->name, span, a_across ? " A across" : "",
                     b_across ? " B across" : "", a_in_registers ? " A in registers" : "");
}

int64_t wgmma_shared_bytes(const WgmmaCase& c) {
  return up(a_of(c).count() * c.bytes(), 1024) + b_of(c).count() * c.bytes();
}

std::string wgmma_kernel(const WgmmaCase& c) {
  const Instruction& row = *c.row;
  const std::string type = stored_type(c);
  const std::string sum = has_halves(c) ? "unsigned" : is_float(row.acc) ? "float" : "int";
  const Side a = a_of(c), b = b_of(c);
  const std::string ways =
      row.may_be_transposed() ? fmt::format("<{}, {}>", int{c.a_across}, int{c.b_across}) : "";
  const int span = c.span == kPiece ? 0 : c.span;
  const int halves = has_halves(c) ? 2 : 1;
  return fmt::format(
      "extern \"C\" __global__ void __launch_bounds__(128)\n"
      "wgmma(TW_IN({0}) A, TW_IN({0}) B, TW_OUT({1}) C) {{\n"
      "  TW_SHARED({0}, As, 0, {2});\n"
      "  TW_SHARED({0}, Bs, {3}, {4});\n"
      "{5}{6}"
      "  tw_fence_async();\n"
      "  __syncthreads();\n"
      "  const int lane = threadIdx.x % 32, row = threadIdx.x / 32 * 16 + lane / 4;\n"
      "  {1} d[{7}];\n"
      "{9}"
      "  tw_wgmma_fence();\n"
      "#pragma unroll\n"
      "  for (int s = 0; s < {8}; ++s) {{\n"
      "    tw_wgmma_{10}{11}(d, {12},\n"
      "        tw_wgmma_operand<{13}>(Bs + s * {14}, {15}), s > 0);\n"
      "  }}\n"
      "  tw_wgmma_commit();\n"
      "  tw_wgmma_wait<0>();\n"
      "  tw_wgmma_hold(d);\n"
      "#pragma unroll\n"
      "  for (int r = 0; r < {7}; ++r) {{\n"
      "    const int e = {16} * r, i = row + e / 2 % 2 * 8, j = e / 4 * 8 + lane % 4 * 2 + e % 2;\n"
      "    C[(i * {17} + j) / {16}] = d[r];\n"
      "  }}\n"
      "}}\n",
      type, sum, a.count(), up(a.count() * c.bytes(), 1024), b.count(), copy("A", a), copy("B", b),
      row.sum_registers(), c.terms() / row.k, c.a_in_registers ? load_a(c) : "", row.name, ways,
      c.a_in_registers
          ? "a[s]"
          : fmt::format("tw_wgmma_operand<{}>(As + s * {}, {})", span, a.step(), a.offsets()),
      span, b.step(), b.offsets(), halves, row.n);
}

WgmmaRun run_wgmma(const WgmmaCase& c, const std::string& kernel, uint64_t seed) {
  const Instruction& types = *c.row;
  const int n = c.row->n, terms = c.terms();
  // Small enough that sums in f16 are exact, too.
  auto number = [](ElemType type, int i) {
    const int value = static_cast<int>(static_cast<unsigned>(i) * 2654435761u >> 16) % 5;
    return static_cast<double>(type == ElemType::u8 ? value : value - 2);
  };
  auto fill = [&](ElemType type, int rows, int salt) {
    std::vector<unsigned char> bytes(static_cast<size_t>(rows * terms * c.bytes()));
    for (int i = 0; i < rows * terms; ++i) {
      const uint64_t bits = encode_element(type, number(type, i + salt));
      std::memcpy(bytes.data() + i * c.bytes(), &bits, static_cast<size_t>(c.bytes()));
    }
    return bytes;
  };
  std::vector<unsigned char> a = fill(types.operand, kWgmmaKernelsRows, 0),
                             b = fill(types.b_operand(), n, 3);
  const int sum_bytes = bits_of(types.acc) / 8;
  std::vector<unsigned char> sums(static_cast<size_t>(kWgmmaKernelsRows * n * sum_bytes));
  EmulatedLaunch launch{"wgmma", {1, 1, 1}, {128, 1, 1}, wgmma_shared_bytes(c), {}};
  launch.arguments = {EmulatedLaunch::Buffer{0}, EmulatedLaunch::Buffer{1},
                      EmulatedLaunch::Buffer{2}};
  auto size = [](const std::vector<unsigned char>& v) { return static_cast<int64_t>(v.size()); };
  EmulatorOptions options;
  options.seed = seed;
  WgmmaRun run{emulate(
      kernel, {launch},
      {{"A", a.data(), size(a)}, {"B", b.data(), size(b)}, {"C", sums.data(), size(sums), false}},
      options)};
  run.is_right = run.result.ok();
  for (int i = 0; i < kWgmmaKernelsRows && run.is_right; ++i) {
    for (int j = 0; j < n; ++j) {
      double want = 0;
      for (int k = 0; k < terms; ++k) {
        want += number(types.operand, i * terms + k) * number(types.b_operand(), j * terms + k + 3);
      }
      uint64_t bits = 0;
      std::memcpy(&bits, sums.data() + (i * n + j) * sum_bytes, static_cast<size_t>(sum_bytes));
      run.is_right &= decode_element(types.acc, bits) == want;
    }
  }
  return run;
}

}  // namespace tilewright::test
