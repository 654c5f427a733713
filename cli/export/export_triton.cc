#include "cli/export/export_triton.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "cli/export/export_kernel.h"
#include "cli/export/export_triton_tiles.h"
#include "ir/buffer.h"
#include "ir/ops/spec.h"
#include "ir/predicates.h"
#include "ir/visitor.h"

namespace tilewright::cli {
namespace {

// A type's name behind "tl.", and its pointer's in a signature.
struct TritonType {
  std::string value, pointer;
};

TritonType triton_type(const Workload& w, ElemType elem) {
  switch (elem) {
    case ElemType::f32: return {"float32", "*fp32"};
    case ElemType::f16: return {"float16", "*fp16"};
    case ElemType::bf16: return {"bfloat16", "*bf16"};
    case ElemType::i32: return {"int32", "*i32"};
    case ElemType::i8: return {"int8", "*i8"};
    case ElemType::u8:
    case ElemType::i4:
    case ElemType::u4: return {"uint8", "*u8"};  // bytes of two elements, the first one low
    default: refuse_triton(w, fmt::format("Triton's text has no elements of {}", to_string(elem)));
  }
}

// A variable's text, and the condition under which it lies within its axis ("": always).
struct TritonPlace {
  std::string text, bound = {};
};
using TritonPlaces = std::map<const ExprNode*, TritonPlace>;

// One kernel: the whole product, the parts of a split k, or the sum of these parts.
class TritonKernel {
 public:
  enum class Role : uint8_t { Whole, Parts, Add };

  TritonKernel(const Workload& w, const TritonProduct& p, const TritonTiling& t, Role role)
      : w_(w), p_(p), t_(t), role_(role), shape_(p.sum->output->shape),
        acc_(triton_type(w, p.sum->output->elem)) {
    for (const DimVar& d : w.dims) dims_[d.var.get()] = {c_name(d.var.name()) + "_size"};
  }

  std::string print(const std::string& name) {
    line("BLOCK_M: tl.constexpr = {}", t_.m);
    line("BLOCK_N: tl.constexpr = {}", t_.n);
    if (role_ != Role::Add) line("BLOCK_K: tl.constexpr = {}", t_.k);
    print_tile();
    line("acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.{})", acc_.value);
    role_ == Role::Add ? print_parts() : print_loop();
    if (role_ == Role::Parts) {
      line("tl.store(parts_ptr + {}, acc{})", index_of_part(), mask(both()));
    } else {
      print_epilogue();
    }
    std::string parameters;
    for (const auto& [p, type] : signature()) parameters += (parameters.empty() ? "" : ", ") + p;
    return fmt::format("\n\n@triton.jit\ndef {}({}):\n{}", name, parameters, text_);
  }

  // The kernel's parameters with their types. Requires print().
  std::vector<std::pair<std::string, std::string>> signature() const {
    std::vector<std::pair<std::string, std::string>> list;
    for (const Param& p : w_.inputs) {
      if (used_.contains(p.buffer->name)) list.push_back(parameter(p.buffer));
    }
    if (role_ != Role::Whole) list.emplace_back("parts_ptr", acc_.pointer);
    if (role_ != Role::Parts) list.push_back(parameter(w_.output()));
    for (const DimVar& d : w_.dims) list.emplace_back(dims_.at(d.var.get()).text, "i32");
    return list;
  }

  std::string tiles() const {
    std::string count =
        fmt::format("triton.cdiv({}, {}) * triton.cdiv({}, {})", rows(), t_.m, columns(), t_.n);
    for (const auto& [name, extent] : outer_axes()) count += " * " + extent;
    return count;
  }

 private:
  template <class... T>
  void line(fmt::format_string<T...> format, T&&... args) {
    text_ += std::string(4 * depth_, ' ') + fmt::format(format, std::forward<T>(args)...) + "\n";
  }

  std::pair<std::string, std::string> parameter(const Buffer& b) const {
    return {c_name(b->name) + "_ptr", triton_type(w_, b->elem).pointer};
  }

  std::string rows() const { return fixed(shape_[shape_.size() - 2]); }
  std::string columns() const { return fixed(shape_.back()); }
  // An extent: a number or a dynamic size.
  std::string fixed(const Expr& extent) const {
    if (auto n = as_int(extent)) return std::to_string(*n);
    auto dim = dims_.find(extent.get());
    if (dim == dims_.end()) refuse_triton(w_, "a size is computed from dynamic ones");
    return dim->second.text;
  }

  // Axes of the grid around the tiles, outermost first, with their extents.
  std::vector<std::pair<std::string, std::string>> outer_axes() const {
    std::vector<std::pair<std::string, std::string>> axes;
    if (role_ == Role::Parts) axes.emplace_back("part", std::to_string(t_.parts));
    for (size_t x = 0; x + 2 < shape_.size(); ++x) {
      axes.emplace_back(fmt::format("batch_{}", x), fixed(shape_[x]));
    }
    return axes;
  }

  // The tile of this block, in the config's order.
  void print_tile() {
    line("tiles_m = tl.cdiv({}, BLOCK_M)", rows());
    line("tiles_n = tl.cdiv({}, BLOCK_N)", columns());
    const auto outer = outer_axes();
    std::string all = "tiles_m * tiles_n";
    for (const auto& [name, extent] : outer) all += " * " + extent;
    if (t_.blocks_per_sm > 0) {
      line("for tile in range(tl.program_id(0), {}, tl.num_programs(0)):", all);
      ++depth_;
    } else {
      line("tile = tl.program_id(0)");
    }
    std::string around = "tile // (tiles_m * tiles_n)";
    for (auto axis = outer.rbegin(); axis != outer.rend(); ++axis) {
      line("{} = {} % {}", axis->first, around, axis->second);
      around += " // " + axis->second;
    }
    const char major = t_.is_swapped ? 'n' : 'm', minor = t_.is_swapped ? 'm' : 'n';
    line("inner = tile % (tiles_m * tiles_n)");
    line("first = inner // ({} * tiles_{}) * {}", t_.group, minor, t_.group);
    line("width = tl.minimum(tiles_{} - first, {})", major, t_.group);
    line("tile_{} = first + inner % ({} * tiles_{}) % width", major, t_.group, minor);
    line("tile_{} = inner % ({} * tiles_{}) // width", minor, t_.group, minor);
    line("rows = tile_m * BLOCK_M + tl.arange(0, BLOCK_M){}", wide());
    line("columns = tile_n * BLOCK_N + tl.arange(0, BLOCK_N){}", wide());
  }

  // Offsets of more than 32 bits where an operand or the parts have so many elements.
  std::string wide() const {
    const auto is_large = [](const Buffer& b, int64_t times) {
      const auto count = num_elements(b);
      return !count || *count * times >= int64_t{1} << 31;
    };
    bool any = is_large(p_.sum->output, t_.parts);
    for (const Param& p : w_.inputs) any = any || is_large(p.buffer, 1);
    return any ? ".to(tl.int64)" : "";
  }

  // The place of an axis of this extent. `unit` divides whole tiles, which need no bound.
  static TritonPlace place(const std::string& text, const std::string& extent, int64_t unit) {
    const bool is_whole = extent.find_first_not_of("0123456789") == std::string::npos &&
                          std::stoll(extent) % unit == 0;
    return {text, is_whole ? "" : fmt::format("({} < {})", text, extent)};
  }
  TritonPlace row(const char* slice) const {
    return place(fmt::format("rows{}", slice), rows(), t_.m);
  }
  TritonPlace column(const char* slice) const {
    return place(fmt::format("columns{}", slice), columns(), t_.n);
  }
  TritonPlace k_at(const std::string& text) const {
    const int64_t k = *as_int(p_.sum->reduce_axes[0].extent);
    TritonPlace at = place(text, std::to_string(k / t_.parts), t_.k);
    if (!at.bound.empty()) at.bound = fmt::format("({} < {})", text, k_end());
    return at;
  }
  std::string k_end() const {
    const int64_t k = *as_int(p_.sum->reduce_axes[0].extent);
    return t_.parts > 1 ? fmt::format("(part + 1) * {}", k / t_.parts) : std::to_string(k);
  }

  // TritonPlaces of a product's axes; those of the weight's stage are bound through its read.
  TritonPlaces places(const TritonPlace& i, const TritonPlace& j, const TritonPlace& k) const {
    TritonPlaces at = dims_;
    for (size_t x = 0; x + 2 < shape_.size(); ++x) {
      at[p_.sum->axes[x].get()] = {fmt::format("batch_{}", x)};
    }
    at[p_.i.get()] = i, at[p_.j.get()] = j, at[p_.k.get()] = k;
    for (size_t x = 0; p_.dequantized && x < p_.dequantized->axes.size(); ++x) {
      at[p_.dequantized->axes[x].get()] = at.at(p_.b->indices[x].get());
    }
    return at;
  }
  TritonPlaces both() const { return places(row("[:, None]"), column("[None, :]"), {}); }

  std::string mask(const TritonPlaces& at, const std::vector<Expr>& indices) const {
    std::set<std::string> bounds;
    for (const auto& [var, place] : at) {
      if (place.bound.empty()) continue;
      for (const Expr& index : indices) {
        for_each_expr(index, [&, v = var, &bound = place.bound](const Expr& e) {
          if (e.get() == v) bounds.insert(bound);
        });
      }
    }
    return bounds.empty() ? "" : fmt::format(", mask={}", fmt::join(bounds, " & "));
  }
  std::string mask(const TritonPlaces& at) const { return mask(at, {p_.i, p_.j}); }

  // The element's number in its row-major array.
  std::string index(const Buffer& b, const std::vector<Expr>& indices,
                    const TritonPlaces& at) const {
    std::string text = "0";
    for (size_t d = 0; d < indices.size(); ++d) {
      const std::string x = value(indices[d], at);
      text = d == 0 ? x : fmt::format("({} * {} + {})", text, fixed(b->shape[d]), x);
    }
    return text;
  }
  std::string index_of_part() const {
    std::string text = "part";
    const TritonPlaces at = both();
    for (size_t d = 0; d < shape_.size(); ++d) {
      text =
          fmt::format("({} * {} + {})", text, fixed(shape_[d]), at.at(p_.sum->axes[d].get()).text);
    }
    return text;
  }

  // The read of elements, of bytes if `unit` elements share one.
  std::string load(const LoadNode& n, const TritonPlaces& at, int unit = 1) const {
    const Buffer& b = n.buffer;
    used_.insert(b->name);
    const std::string bounds = mask(at, n.indices), bytes = unit == 1 ? "" : " // 2";
    return fmt::format("tl.load({}_ptr + {}{}{})", c_name(b->name), index(b, n.indices, at), bytes,
                       bounds.empty() ? "" : bounds + ", other=0");
  }

  // An expression over places. Reads of earlier stages are variables.
  std::string value(const Expr& e, const TritonPlaces& at) const {
    if (auto n = as_int(e)) return std::to_string(*n);
    if (auto* n = e.as<FloatImmNode>()) return fmt::format("{}", static_cast<float>(n->value));
    if (e.as<VarNode>()) return at.at(e.get()).text;
    if (auto* n = e.as<CastNode>()) {
      return fmt::format("{}.to(tl.{})", value(n->value, at), triton_type(w_, n->type.elem).value);
    }
    if (auto* n = e.as<LoadNode>()) return stage_or_load(*n, at);
    if (auto* n = e.as<SelectNode>()) {
      return fmt::format("tl.where({}, {}, {})", value(n->cond, at), value(n->on_true, at),
                         value(n->on_false, at));
    }
    if (auto* n = e.as<UnaryNode>()) return unary(*n, at);
    if (auto* n = e.as<BinaryNode>()) return binary(*n, at);
    refuse_triton(w_, "its epilogue has a call");
  }
  std::string stage_or_load(const LoadNode& n, const TritonPlaces& at) const {
    if (n.buffer == p_.sum->output) return "acc";
    for (const Stage* s : p_.epilogue) {
      if (s->output == n.buffer) return c_name(n.buffer->name) + "_value";
    }
    return load(n, at);
  }
  std::string unary(const UnaryNode& n, const TritonPlaces& at) const {
    if (n.op == UnaryOp::Neg) return fmt::format("(-{})", value(n.a, at));
    if (n.op == UnaryOp::Not || n.op == UnaryOp::Tanh || n.op == UnaryOp::Round) {
      refuse_triton(w_, fmt::format("its epilogue has {}, which Triton's core language lacks",
                                    name_of(n.op)));
    }
    return fmt::format("tl.{}({})", name_of(n.op), value(n.a, at));
  }
  std::string binary(const BinaryNode& n, const TritonPlaces& at) const {
    const std::string a = value(n.a, at), b = value(n.b, at);
    if (n.op == BinaryOp::Min || n.op == BinaryOp::Max) {
      return fmt::format("tl.{}({}, {})", n.op == BinaryOp::Min ? "minimum" : "maximum", a, b);
    }
    const std::string op = n.op == BinaryOp::FloorDiv   ? "//"
                           : n.op == BinaryOp::FloorMod ? "%"
                           : n.op == BinaryOp::And      ? "&"
                           : n.op == BinaryOp::Or       ? "|"
                                                        : std::string(name_of(n.op));
    return fmt::format("({} {} {})", a, op, b);
  }

  void print_loop() {
    const TritonPlaces a = places(row("[:, None]"), {}, k_at("ks[None, :]"));
    line("for k0 in range({}, {}, BLOCK_K):",
         t_.parts > 1 ? fmt::format("part * {}", *as_int(p_.sum->reduce_axes[0].extent) / t_.parts)
                      : "0",
         k_end());
    ++depth_;
    line("ks = k0 + tl.arange(0, BLOCK_K){}", wide());
    line("a = {}", load(*p_.a, a));
    p_.dequantized
        ? print_weight()
        : line("b = {}", load(*p_.b, places({}, column("[None, :]"), k_at("ks[:, None]"))));
    const std::string dot = fmt::format("input_precision=\"{}\", out_dtype=tl.", t_.precision);
    if (!p_.is_scaled(w_)) {
      line("acc = tl.dot(a, b, acc, {}{})", dot, acc_.value);
    } else {
      const bool of_bytes = p_.a->buffer->elem == ElemType::i8;
      line("products = tl.dot(a, b, {}{}){}", dot, of_bytes ? "int32" : "float32",
           of_bytes ? ".to(tl.float32)" : "");
      print_scales();
    }
    --depth_;
  }

  // TritonPlaces of a group's scale, zero point and offset, in one row of columns.
  TritonPlaces group_places() const { return places({}, column(""), {"k0"}); }

  // b: the weight's codes, without integer zero points.
  void print_weight() {
    const LoadNode& codes = p_.codes(w_);
    const ElemType elem = codes.buffer->elem;
    if (bits_of(elem) == 8) {
      line("codes = {}.to(tl.int16)",
           load(codes, places({}, column("[None, :]"), k_at("ks[:, None]"))));
    } else {
      const TritonPlaces probe = places({}, {"j"}, {"k"});
      const bool is_along_k = value(codes.indices.back(), probe) == "k";
      const TritonPlaces at =
          is_along_k ? places({}, column("[:, None]"),
                              k_at("(k0 + 2 * tl.arange(0, BLOCK_K // 2))[None, :]"))
                     : places({},
                              place("(tile_n * BLOCK_N + 2 * tl.arange(0, BLOCK_N // 2))[None, :]",
                                    columns(), t_.n),
                              k_at("ks[:, None]"));
      line("pairs = {}", load(codes, at, 2));
      line("codes = tl.interleave(pairs & 15, pairs >> 4).to(tl.int16)");
      if (elem == ElemType::i4) line("codes = (codes ^ 8) - 8");
      if (is_along_k) line("codes = tl.trans(codes)");
    }
    if (const LoadNode* zero = zero_point(true)) {
      const bool is_byte = bits_of(zero->buffer->elem) == 8;
      line("zero = {}", load(*zero, group_places(), is_byte ? 1 : 2));
      if (!is_byte)
        line("zero = (zero >> ({} % 2 * 4).to(tl.uint8)) & 15",
             index(zero->buffer, zero->indices, group_places()));
      line("codes = codes - zero.to(tl.int16)[None, :]");
    }
    line("b = codes.to(tl.{})", triton_type(w_, p_.a->buffer->elem).value);
  }
  // The read of zero points that are integers, or of those that are floats.
  const LoadNode* zero_point(bool is_integer_one) const {
    const LoadNode* zero = p_.weight_load(w_.weight->zero);
    return zero && is_integer(zero->buffer->elem) == is_integer_one ? zero : nullptr;
  }

  // A group's products are scaled as a whole; what is not an integer applies to sums of a.
  void print_scales() {
    const auto read = [&](const char* name, const LoadNode& n) {
      line("{} = {}.to(tl.float32)[None, :]", name, load(n, group_places()));
    };
    const LoadNode* zero = zero_point(false);
    const LoadNode* offset = p_.weight_load(w_.weight->offset);
    if (zero || offset) line("sums = tl.sum(a.to(tl.float32), 1)[:, None]");
    if (zero) {
      read("zero", *zero);
      line("products -= sums * zero");
    }
    read("scale", *p_.weight_load(w_.weight->scale));
    line("acc += products * scale");
    if (offset) {
      read("offset", *offset);
      line("acc += sums * offset");
    }
  }

  // Always in one order, so that results do not differ from run to run.
  void print_parts() {
    const std::string bounds = mask(both());
    line("for part in range({}):", t_.parts);
    line("    acc += tl.load(parts_ptr + {}{})", index_of_part(),
         bounds.empty() ? "" : bounds + ", other=0");
  }

  void print_epilogue() {
    TritonPlaces at = both();
    std::string result = "acc";
    for (const Stage* s : p_.epilogue) {
      for (size_t x = 0; x < s->axes.size(); ++x) {
        at[s->axes[x].get()] = at.at(p_.sum->axes[x].get());
      }
      result = c_name(s->output->name) + "_value";
      line("{} = {}", result, value(s->value, at));
    }
    line("tl.store({}_ptr + {}, {}{})", c_name(w_.output()->name),
         index(w_.output(), {p_.sum->axes.begin(), p_.sum->axes.end()}, at), result, mask(at));
  }

  const Workload& w_;
  const TritonProduct& p_;
  const TritonTiling& t_;
  const Role role_;
  const std::vector<Expr> shape_;
  const TritonType acc_;
  TritonPlaces dims_;
  mutable std::set<std::string> used_;  // parameters that are read
  std::string text_;
  size_t depth_ = 1;
};

}  // namespace

std::string triton_source(const Workload& w, const std::string& config, const Target& target,
                          const std::string& origin) {
  using Role = TritonKernel::Role;
  const TritonProduct p = triton_product(w);
  check_triton(w, p);
  const TritonTiling t = triton_tiling(w, p, config);
  const std::string name = export_name(w), spec = spec_to_inline(parse_spec(w.canonical));
  std::string kernels, list, launches, arguments;
  std::set<std::string> named;
  for (Role role : t.parts > 1 ? std::vector{Role::Parts, Role::Add} : std::vector{Role::Whole}) {
    TritonKernel k(w, p, t, role);
    const std::string kernel = role == Role::Add ? name + "_add" : name;
    kernels += k.print(kernel);
    std::string types, own;
    for (const auto& [parameter, type] : k.signature()) {
      types += fmt::format("{}\"{}\": \"{}\"", types.empty() ? "" : ", ", parameter, type);
      own += parameter + ", ";
      if (named.insert(parameter).second) arguments += (arguments.empty() ? "" : ", ") + parameter;
    }
    list += fmt::format("    ({}, {{{}}}),\n", kernel, types);
    const std::string grid = t.blocks_per_sm > 0 ? fmt::format("min({}, {})", k.tiles(),
                                                               t.blocks_per_sm * target.gpu.sms)
                                                 : k.tiles();
    launches += fmt::format("    {}[({},)]({}**OPTIONS)\n", kernel, grid, own);
  }
  const std::string parts =
      t.parts > 1
          ? fmt::format(" parts_ptr has room for {} outputs in the accumulators' type.", t.parts)
          : "";
  return fmt::format(
      "# -*- coding: utf-8 -*-\n# {}\n# {}.\n# Config: {}\n{}import triton\nimport triton.language "
      "as tl\n{}\n\n"
      "OPTIONS = {{\"num_warps\": {}, \"num_stages\": {}}}\n"
      "# For triton.compile(ASTSource(kernel, signature), target, OPTIONS).\nKERNELS = [\n{}]\n\n\n"
      "def run({}):\n    \"\"\"Launches on contiguous row-major tensors.{}\"\"\"\n{}",
      spec, one_line(origin), nlohmann::ordered_json::parse(config).dump(), t.notes, kernels,
      t.warps, t.stages, list, arguments, parts, launches);
}

}  // namespace tilewright::cli
