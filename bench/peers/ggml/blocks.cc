// The layouts of blocks are those of GGUF files (see models/weights/ for the reading side).
#include "bench/peers/ggml/blocks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

namespace tilewright::peers {
namespace {

constexpr int64_t kBlock = 32, kSuperBlock = 256;

// The spec's operands by row and column.
class StoredElements {
 public:
  StoredElements(const PeerSpec& spec, const Operands& operands, int64_t group)
      : n_(spec.size("n")), group_(group),
        nibbles_(spec.text("w.dtype", "").find('8') == std::string::npos) {
    const int64_t k = spec.size("k"), count = k * n_, groups = (k + group - 1) / group * n_;
    auto bytes = [&](const char* name, int64_t size) {
      return static_cast<const uint8_t*>(operands.get(name, size));
    };
    codes_ = bytes("B", nibbles_ ? (count + 1) / 2 : count);
    scale_bytes_ = spec.text("w.scale", "f32") == "e8m0" ? 1 : 2;
    scales_ = bytes("B.scale", groups * scale_bytes_);
    if (spec.text("w.zero", "none") != "none") zeros_ = bytes("B.zero", (groups + 1) / 2);
    if (spec.text("w.offset", "none") != "none") offsets_ = bytes("B.offset", groups * 2);
  }

  int code(int64_t row, int64_t column) const {
    const int64_t at = row * n_ + column;
    return nibbles_ ? nibble(codes_, at) : codes_[at];
  }
  // The bytes of the scale of the group that `row` is in.
  const uint8_t* scale(int64_t row, int64_t column) const {
    return scales_ + (row / group_ * n_ + column) * scale_bytes_;
  }
  float scale_f16(int64_t row, int64_t column) const {
    ggml_fp16_t half;
    std::memcpy(&half, scale(row, column), sizeof half);
    return ggml_fp16_to_fp32(half);
  }
  // The bytes of the group's offset, which is f16.
  const uint8_t* offset(int64_t row, int64_t column) const {
    return offsets_ + (row / group_ * n_ + column) * 2;
  }
  int zero(int64_t row, int64_t column) const { return nibble(zeros_, row / group_ * n_ + column); }

 private:
  static int nibble(const uint8_t* bytes, int64_t at) { return bytes[at / 2] >> (at % 2 * 4) & 15; }

  int64_t n_, group_;
  bool nibbles_;
  int scale_bytes_ = 2;
  const uint8_t *codes_ = nullptr, *scales_ = nullptr, *zeros_ = nullptr, *offsets_ = nullptr;
};

// Appends the block of column `column` that begins at row `row`.
using AppendBlock = void (*)(const StoredElements&, int64_t row, int64_t column,
                             std::vector<uint8_t>& out);

void append(std::vector<uint8_t>& out, const void* data, size_t bytes) {
  const auto* first = static_cast<const uint8_t*>(data);
  out.insert(out.end(), first, first + bytes);
}

// 16 bytes: the low half of each is one of the block's first 16 elements, the high half one of its
// last; `flip` changes the sign bit of integers into an offset of 8.
void append_nibbles(const StoredElements& from, int64_t row, int64_t column, int flip,
                    std::vector<uint8_t>& out) {
  for (int64_t i = row; i < row + kBlock / 2; ++i) {
    const int low = from.code(i, column) ^ flip, high = from.code(i + kBlock / 2, column) ^ flip;
    out.push_back(static_cast<uint8_t>(low | high << 4));
  }
}

void append_q4_0(const StoredElements& from, int64_t row, int64_t column,
                 std::vector<uint8_t>& out) {
  append(out, from.scale(row, column), 2);
  append_nibbles(from, row, column, 8, out);
}

void append_q4_1(const StoredElements& from, int64_t row, int64_t column,
                 std::vector<uint8_t>& out) {
  append(out, from.scale(row, column), 2);
  append(out, from.offset(row, column), 2);
  append_nibbles(from, row, column, 0, out);
}

void append_mxfp4(const StoredElements& from, int64_t row, int64_t column,
                  std::vector<uint8_t>& out) {
  append(out, from.scale(row, column), 1);
  append_nibbles(from, row, column, 0, out);
}

void append_q8_0(const StoredElements& from, int64_t row, int64_t column,
                 std::vector<uint8_t>& out) {
  append(out, from.scale(row, column), 2);
  for (int64_t i = row; i < row + kBlock; ++i) {
    out.push_back(static_cast<uint8_t>(from.code(i, column)));
  }
}

// Eight numbers of one sign as integers of 6 bits times a step in f16.
struct SixBits {
  ggml_fp16_t step;
  std::array<int, 8> steps;

  explicit SixBits(const std::array<float, 8>& values) {
    step = ggml_fp32_to_fp16(*std::max_element(values.begin(), values.end()) / 63);
    const float rounded = ggml_fp16_to_fp32(step);
    for (size_t i = 0; i < values.size(); ++i) {
      const float wanted = rounded == 0 ? 0 : std::round(values[i] / rounded);
      steps[i] = static_cast<int>(std::clamp(wanted, 0.0f, 63.0f));
    }
  }
};

// An element is worth scale * code - minimum here, so the minimum is scale * zero point.
void append_q4_k(const StoredElements& from, int64_t row, int64_t column,
                 std::vector<uint8_t>& out) {
  std::array<float, 8> scales, minima;
  for (int i = 0; i < 8; ++i) {
    const int64_t at = row + i * kBlock;
    scales[i] = from.scale_f16(at, column);
    if (!(scales[i] >= 0)) throw Unsupported("no scales below 0 beside zero points");
    minima[i] = scales[i] * static_cast<float>(from.zero(at, column));
  }
  const SixBits d(scales), m(minima);
  append(out, &d.step, 2);
  append(out, &m.step, 2);
  std::array<int, 12> packed{};  // the first four of each whole, with upper bits of the last four
  for (int i = 0; i < 4; ++i) {
    packed[i] = d.steps[i] | d.steps[i + 4] >> 4 << 6;
    packed[i + 4] = m.steps[i] | m.steps[i + 4] >> 4 << 6;
    packed[i + 8] = (d.steps[i + 4] & 15) | (m.steps[i + 4] & 15) << 4;
  }
  for (int byte : packed) out.push_back(static_cast<uint8_t>(byte));
  for (int64_t i = row; i < row + kSuperBlock; i += 2 * kBlock) {
    for (int64_t j = i; j < i + kBlock; ++j) {
      out.push_back(
          static_cast<uint8_t>(from.code(j, column) | from.code(j + kBlock, column) << 4));
    }
  }
}

struct BlockFormat {
  const char *dtype, *scale, *zero, *offset;
  ggml_type type;
  AppendBlock append;
  const char* remark;
};

constexpr std::array kFormats = {
    BlockFormat{"i4", "f16", "none", "none", GGML_TYPE_Q4_0, append_q4_0, ""},
    BlockFormat{"i8", "f16", "none", "none", GGML_TYPE_Q8_0, append_q8_0, ""},
    BlockFormat{"u4", "f16", "none", "f16", GGML_TYPE_Q4_1, append_q4_1, ""},
    BlockFormat{"u4", "f16", "u4", "none", GGML_TYPE_Q4_K, append_q4_k,
                "scales and minima rounded to 6 bits"},
    BlockFormat{"f4e2m1", "e8m0", "none", "none", GGML_TYPE_MXFP4, append_mxfp4, ""}};

const BlockFormat& format_of(const PeerSpec& spec) {
  const std::string dtype = spec.text("w.dtype", "none"), scale = spec.text("w.scale", "f32"),
                    zero = spec.text("w.zero", "none"), offset = spec.text("w.offset", "none");
  const BlockFormat* of_type = nullptr;
  for (const BlockFormat& format : kFormats) {
    if (dtype != format.dtype) continue;
    of_type = &format;
    if (scale == format.scale && zero == format.zero && offset == format.offset) return format;
  }
  if (dtype == "none") throw Unsupported("no weight in the type of the activations");
  if (of_type == nullptr) throw Unsupported("no weight stored as " + dtype);
  auto keys = [](const std::string& s, const std::string& z, const std::string& o) {
    return "w.scale=" + s + ", w.zero=" + z + (o == "none" ? "" : ", w.offset=" + o);
  };
  throw Unsupported("no " + dtype + " with " + keys(scale, zero, offset) + "; " +
                    ggml_type_name(of_type->type) + " has " +
                    keys(of_type->scale, of_type->zero, of_type->offset));
}

int64_t group_of(const PeerSpec& spec) {
  const int64_t group = spec.size("w.group", -1);
  return group < 0 ? spec.size("k") : group;
}

}  // namespace

void require_block_weight(const PeerSpec& spec) {
  if (spec.text("w.sparse", "none") != "none") throw Unsupported("no sparse weight");
  const int64_t block = ggml_blck_size(format_of(spec).type);
  if (group_of(spec) % kBlock != 0) throw Unsupported("no groups that are not multiples of 32");
  if (spec.size("k") % block != 0) {
    throw Unsupported("no k that " + std::to_string(block) + " does not divide");
  }
}

BlockWeight block_weight(const PeerSpec& spec, const Operands& operands) {
  require_block_weight(spec);
  const BlockFormat& format = format_of(spec);
  const int64_t k = spec.size("k"), n = spec.size("n"), block = ggml_blck_size(format.type);
  const StoredElements elements(spec, operands, group_of(spec));
  BlockWeight weight{format.type, {}, format.remark};
  weight.rows.reserve(ggml_row_size(format.type, k) * n);
  for (int64_t j = 0; j < n; ++j) {
    for (int64_t i = 0; i < k; i += block) format.append(elements, i, j, weight.rows);
  }
  return weight;
}

}  // namespace tilewright::peers
