#include "cli/export/export_triton_tiles.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "ir/buffer.h"
#include "ir/ops/spec.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kLeastTritonBlock = 16;  // of tl.dot along each axis
constexpr int64_t kMostTritonBlock = 4096;
constexpr int64_t kCurveRows = 8;  // rows of tiles that stand for a Hilbert curve

class TilingReader {
 public:
  TilingReader(const Workload& w, const TritonProduct& p, const std::string& config)
      : w_(w), p_(p), k_(as_int(p.sum->reduce_axes[0].extent).value_or(0)),
        choices_(Json::parse(config)) {}

  TritonTiling read() {
    const std::string mma = word("mma", "none"), grid = word("grid", "tiles");
    read_tile(mma);
    t_.stages = number("stages", 1);
    t_.parts = number("parts", 1);
    check_parts();
    t_.group = number("group", 1);
    t_.precision = mma.find("tf32x3") != std::string::npos ? "tf32x3"
                   : mma.find("tf32") != std::string::npos ? "tf32"
                                                           : "ieee";
    if (grid == "persistent") t_.blocks_per_sm = number("blocks", 1);
    if (grid == "stream_k") t_.notes += "# Stream-K is printed as one block per tile.\n";
    if (word("order", "rows") == "hilbert") {
      t_.group = kCurveRows;
      t_.notes += fmt::format("# The Hilbert curve is printed as groups of {} rows of tiles.\n",
                              kCurveRows);
    }
    note_others();
    return t_;
  }

 private:
  const Json* find(const std::string& knob) const {
    for (const auto& [name, value] : choices_.items()) {
      if (name.ends_with("." + knob)) return &value;
    }
    return nullptr;
  }
  int64_t number(const std::string& knob, int64_t otherwise) const {
    const Json* j = find(knob);
    const int64_t value = j ? j->get<int64_t>() : otherwise;
    if (value < 1) refuse_triton(w_, "its config has no sound numbers: " + choices_.dump());
    return value;
  }
  std::string word(const std::string& knob, const std::string& otherwise) const {
    const Json* j = find(knob);
    return j ? j->get<std::string>() : otherwise;
  }

  // "128x128x64/64x128" has rows, columns and k, then those of a warp, a warpgroup (wgmma) or a
  // thread (no instruction). "24x64/16" has rows and columns, then a warp's columns.
  void read_tile(const std::string& mma) {
    const std::string tile = word("tile", "");
    long m = 0, n = 0, k = 0, of_m = 0, of_n = 0;
    if (std::sscanf(tile.c_str(), "%ldx%ldx%ld/%ldx%ld", &m, &n, &k, &of_m, &of_n) == 5) {
      const int64_t teams = of_m > 0 && of_n > 0 ? m / of_m * (n / of_n) : 0;
      t_.warps = mma == "none" ? (teams + 31) / 32 : teams * (mma.starts_with("wgmma") ? 4 : 1);
    } else if (std::sscanf(tile.c_str(), "%ldx%ld/%ld", &m, &n, &of_n) == 3) {
      t_.is_swapped = true;
      t_.warps = of_n > 0 ? n / of_n : 0;
      k = number("k", 64);
    } else {
      refuse_triton(w_, fmt::format("its kernel has no tiles, its config is {}", choices_.dump()));
    }
    if (std::min({m, n, k, of_n, t_.warps}) < 1 || std::max({m, n, k}) > kMostTritonBlock) {
      refuse_triton(w_, "its config has no sound tiles: " + choices_.dump());
    }
    t_.m = block(m, "rows", kLeastTritonBlock);
    t_.n = block(n, "columns", kLeastTritonBlock);
    t_.k = block(k_of_groups(k), "k", least_k());
    const auto warps = static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(t_.warps)));
    if (warps != t_.warps) {
      t_.notes +=
          fmt::format("# {} warps in place of {}: Triton takes powers of two.\n", warps, t_.warps);
    }
    t_.warps = warps;
  }

  // tl.dot takes no fewer.
  int64_t least_k() const { return p_.a->buffer->elem == ElemType::i8 ? 32 : kLeastTritonBlock; }

  void check_parts() const {
    if (t_.parts > 1 && (w_.weight || k_ % t_.parts != 0)) {
      refuse_triton(
          w_, fmt::format("{} parts of k do not divide it, or its weight's groups", t_.parts));
    }
  }

  // A tile's k lies within one group of the weight.
  int64_t k_of_groups(int64_t k) {
    if (!p_.is_scaled(w_)) return k;
    const auto whole =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(k, least_k()))));
    const int64_t group = w_.weight->group;
    if (group == k_ || group % whole == 0) return k;
    const int64_t divisor = group & -group;  // the largest power of two
    if (divisor < least_k()) {
      refuse_triton(w_, fmt::format("groups of {} are no multiple of {}", group, least_k()));
    }
    t_.notes += fmt::format("# A tile has k {} in place of {}, so that it has one group.\n",
                            std::min(divisor, whole), k);
    return std::min(divisor, whole);
  }

  // Triton's blocks are powers of two.
  int64_t block(int64_t size, const char* axis, int64_t least) {
    const auto whole =
        static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(std::max(size, least))));
    if (whole != size) {
      t_.notes +=
          fmt::format("# A tile has {} {} in place of {}: Triton takes powers of two from {}.\n",
                      whole, axis, size, least);
    }
    return whole;
  }

  void note_others() {
    static constexpr std::array<std::string_view, 9> kPrinted = {
        "tile", "k", "stages", "parts", "group", "grid", "blocks", "mma", "order"};
    std::string others;
    for (const auto& [name, value] : choices_.items()) {
      const std::string knob = name.substr(name.rfind('.') + 1);
      if (std::find(kPrinted.begin(), kPrinted.end(), knob) != kPrinted.end()) continue;
      others += fmt::format("{}{}={}", others.empty() ? "" : ", ", name,
                            value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (!others.empty()) t_.notes += one_line("# Left to Triton's compiler: " + others) + ".\n";
  }

  const Workload& w_;
  const TritonProduct& p_;
  const int64_t k_;  // of the whole product
  const Json choices_;
  TritonTiling t_;
};

// The read of an operand that has the axis `own` and not `other`; null for the other operand's.
const LoadNode* operand_of(const Workload& w, const Expr& e, const Var& own, const Var& other) {
  const auto* load = load_under_casts(e);
  if (!load || !std::all_of(load->indices.begin(), load->indices.end(),
                            [](const Expr& x) { return x.as<VarNode>() != nullptr; })) {
    refuse_triton(w, "an operand is computed or gathered");
  }
  const Expr inner = strip_casts(e);
  return uses_var(inner, own) && !uses_var(inner, other) ? load : nullptr;
}

void find_operands(const Workload& w, TritonProduct& p) {
  const auto* times = p.sum->value.as<BinaryNode>();
  if (!times || times->op != BinaryOp::Mul) refuse_triton(w, "its sum is not one of products");
  p.i = p.sum->axes[p.sum->axes.size() - 2];
  p.j = p.sum->axes.back();
  p.k = p.sum->reduce_axes[0].var;
  p.a = operand_of(w, times->a, p.i, p.j);
  p.b = operand_of(w, p.a ? times->b : times->a, p.j, p.i);
  if (!p.a) p.a = operand_of(w, times->b, p.i, p.j);
  if (!p.a || !p.b) refuse_triton(w, "its operands are not one of rows and one of columns");
  const Buffer from = p.dequantized ? p.dequantized->output : nullptr;
  const auto is_read = [&](const LoadNode& n) {
    return n.buffer == from || std::any_of(w.inputs.begin(), w.inputs.end(),
                                           [&](const Param& x) { return x.buffer == n.buffer; });
  };
  const bool is_dequantized = !from || (p.b->buffer == from && p.weight_load(w.weight->weight));
  if (!is_read(*p.a) || !is_read(*p.b) || !is_dequantized) {
    refuse_triton(w, "an operand is computed in the kernel");
  }
}

}  // namespace

void refuse_triton(const Workload& w, const std::string& why) {
  throw UsageError(fmt::format(
      "--triton: {}: {}; accepted are tiled products of two matrices (matmul) of f16, bf16, f32 or "
      "i8, whose weight is dense or has integers of 4 or 8 bits; without --triton any kernel is "
      "exported",
      spec_to_inline(parse_spec(w.canonical)), why));
}

std::string one_line(std::string text) {
  std::replace_if(
      text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' '; }, ' ');
  return text;
}

const LoadNode* TritonProduct::weight_load(const std::string& buffer) const {
  const LoadNode* found = nullptr;
  if (buffer.empty()) return nullptr;
  for_each_expr(dequantized->value, [&](const Expr& e) {
    auto* n = e.as<LoadNode>();
    if (n && n->buffer->name == buffer) found = n;
  });
  return found;
}

bool TritonProduct::is_scaled(const Workload& w) const {
  return dequantized != nullptr && !w.weight->scale.empty();
}

const LoadNode& TritonProduct::codes(const Workload& w) const {
  return dequantized ? *weight_load(w.weight->weight) : *b;
}

TritonProduct triton_product(const Workload& w) {
  TritonProduct p;
  for (const Stage& s : w.stages) {
    const bool is_pointwise = s.reducer == Reducer::None;
    if (!p.sum && is_pointwise && w.weight && !p.dequantized) {
      p.dequantized = &s;
    } else if (!p.sum && s.reducer == Reducer::Sum && s.reduce_axes.size() == 1 &&
               s.axes.size() >= 2) {
      p.sum = &s;
    } else if (p.sum && is_pointwise && s.axes.size() == p.sum->axes.size()) {
      p.epilogue.push_back(&s);
    } else {
      refuse_triton(w, fmt::format("its stage {} is no part of one product", s.output->name));
    }
  }
  if (!p.sum) refuse_triton(w, "it has no sum over one k");
  if (w.weight && w.weight->sparse()) refuse_triton(w, "its weight has a pattern of zeros");
  find_operands(w, p);
  return p;
}

TritonTiling triton_tiling(const Workload& w, const TritonProduct& p, const std::string& config) {
  try {
    return TilingReader(w, p, config).read();
  } catch (const Json::exception&) {
    refuse_triton(w, "its config is not one of tiles: " + config);
  }
}

}  // namespace tilewright::cli
