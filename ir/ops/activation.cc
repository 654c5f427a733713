#include "ir/ops/activation.h"

#include <fmt/format.h>

#include "ir/buffer.h"
#include "ir/ops/keys.h"

namespace tilewright::ops {
namespace {

// The largest magnitude used, the same on both sides of 0.
double most_of(ElemType elem) { return static_cast<double>((1 << (bits_of(elem) - 1)) - 1); }

}  // namespace

std::vector<KeyDef> activation_keys() {
  return {{.name = "a.dtype",
           .kind = KeyKind::Choice,
           .doc = "integers that each row of A is quantized to in the kernel, beside an integer "
                  "w.dtype",
           .choices = {"i8"}}};
}

std::vector<KeyDef> type_keys_with_narrow_rows() {
  std::vector<KeyDef> keys = type_keys();
  for (KeyDef& key : keys) {
    if (key.name == "dtype") key.choices.insert(key.choices.end(), {"i4", "u4", "i1", "u1"});
  }
  return keys;
}

bool has_narrow_rows(const Spec& spec) { return bits_of(elem_under(spec, "dtype")) < 8; }

void normalize_activation(Spec& spec) {
  // A narrow `dtype` alone and an equal `w.dtype` beside it mean the same weight: gives both one
  // form.
  if (has_narrow_rows(spec)) spec.params.emplace("w.dtype", spec.get<std::string>("dtype"));
  if (!spec.has("a.dtype")) return;
  const std::string& to = spec.get<std::string>("a.dtype");
  const ElemType from = elem_under(spec, "dtype");
  if (!is_float(from) || from == ElemType::f64) {
    throw KeyError("a.dtype", fmt::format("quantizes f32, f16 or bf16 operands to {}; dtype is {}",
                                          to, to_string(from)));
  }
  if (!spec.has("w.dtype") || !is_integer(elem_under(spec, "w.dtype"))) {
    throw KeyError("a.dtype",
                   fmt::format("{} operands are multiplied by integers; give an integer w.dtype, "
                               "such as w.dtype=i8",
                               to));
  }
  if (elem_under(spec, "acc") != ElemType::f32) {
    throw KeyError("acc", fmt::format("sums of quantized rows are scaled in f32; got {}",
                                      spec.get<std::string>("acc")));
  }
}

QuantizedRows::QuantizedRows(WorkloadBuilder& b, const std::string& name, ElemType elem,
                             const std::vector<Axis>& rows, const Axis& k, const ReduceFn& read) {
  const ElemType f32 = ElemType::f32;
  const double most = most_of(elem);
  auto bound = [&](double value) { return make_float(f32, value); };
  Buffer top =
      b.reduce(name + "_max", f32, rows, {k}, Reducer::Max, [&](const Point& row, const Point& at) {
        return unary(UnaryOp::Abs, cast(f32, read(row, at)));
      });
  scale_ = b.compute(name + "_scale", f32, rows,
                     [&](const Point& row) { return load(top, row) / bound(most); });
  std::vector<Axis> points = rows;
  points.push_back(k);
  codes_ = b.compute(name + "_q", elem, points, [&](const Point& p) {
    const Point row(p.begin(), p.end() - 1);
    const Expr scale = load(scale_, row);
    Expr code = unary(UnaryOp::Round, cast(f32, read(row, {p.back()})) / scale);
    code = min(max(code, bound(-most)), bound(most));
    return cast(elem, select(scale > bound(0), code, bound(0)));
  });
  for (const Buffer& made : {top, scale_, codes_}) b.set_work(made->name, 0);
}

Buffer narrow_rows_as_bytes(WorkloadBuilder& b, const std::string& name,
                            const std::vector<Axis>& rows, const Axis& k, const ReduceFn& read) {
  std::vector<Axis> points = rows;
  points.push_back(k);
  Buffer bytes = b.compute(name + "_value", ElemType::i8, points, [&](const Point& p) {
    return read(Point(p.begin(), p.end() - 1), {p.back()});
  });
  b.set_work(bytes->name, 0);
  return bytes;
}

}  // namespace tilewright::ops
