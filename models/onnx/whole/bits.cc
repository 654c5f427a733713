// Expressions of whole models: functions of the bits of integers, as sums over their bits.
#include <fmt/format.h>

#include "models/onnx/whole/index_expr.h"
#include "models/onnx/whole/whole.h"

namespace tilewright::onnx {
namespace {

// Numbers have to be exact in f64, in which quotients are rounded down.
ElemType checked_type(const Mapping& m, const Node& node) {
  const ElemType type = m.elem(node.inputs.at(0));
  if (is_float(type) || bits_of(type) > 32) {
    throw NotMapped(
        fmt::format("it takes {}; expected integers of 8, 16 or 32 bits", to_string(type)));
  }
  return type;
}

bool is_signed(ElemType type) {
  return type == ElemType::i8 || type == ElemType::i16 || type == ElemType::i32;
}

// The number of a type whose bits are those of a number that is not negative: two's complement.
std::string of_code(ElemType type, const std::string& code) {
  if (!is_signed(type)) return code;
  const auto all = static_cast<double>(int64_t{1} << bits_of(type));
  return fmt::format("select({0} >= {1}, {0} - {2}, {0})", code, literal(all / 2), literal(all));
}

std::vector<double> powers(int count) {
  std::vector<double> all;
  for (int p = 0; p < count; ++p) all.push_back(static_cast<double>(int64_t{1} << p));
  return all;
}

// Both operands bit by bit: r0 counts bits.
Mapped express_bitwise(const Mapping& m, const Node& node) {
  const ElemType type = checked_type(m, node);
  IndexExpr e(m, node);
  e.accumulate(ElemType::f64);
  const int bits = bits_of(type);
  const double all = static_cast<double>(int64_t{1} << bits);
  const std::string r = e.reduced(bits);
  const std::string power = e.table("powers", ElemType::f64, powers(bits), r);
  // Two's complement.
  const auto bit = [&](const std::string& x) {
    const std::string code =
        is_signed(type) ? fmt::format("select({0} < 0, {0} + {1}, {0})", x, literal(all)) : x;
    return fmt::format("(floor({0} / {1}) - 2 * floor({0} / {1} / 2))", code, power);
  };
  const std::string a = bit(e.element(node.inputs[0])), b = bit(e.element(node.inputs.at(1)));
  std::string both = fmt::format("{} * {}", a, b);
  if (node.op == "BitwiseOr") both = fmt::format("max({}, {})", a, b);
  if (node.op == "BitwiseXor") both = fmt::format("abs({} - {})", a, b);
  const std::string s = e.left("S");
  e.give_type("S", ElemType::f64);
  return {e.finish(
      fmt::format("{} += {} * ({}); {} = {}", s, power, both, e.left(), of_code(type, s)))};
}

Mapped express_bitwise_not(const Mapping& m, const Node& node) {
  const ElemType type = checked_type(m, node);
  IndexExpr e(m, node);
  e.accumulate(ElemType::f64);
  const double most = is_signed(type) ? -1 : static_cast<double>((int64_t{1} << bits_of(type)) - 1);
  return {
      e.finish(fmt::format("{} = {} - {}", e.left(), literal(most), e.element(node.inputs[0])))};
}

// Times or over a power of two, modulo the range of the type.
Mapped express_shift(const Mapping& m, const Node& node) {
  const ElemType type = checked_type(m, node);
  const int bits = bits_of(type);
  IndexExpr e(m, node);
  e.accumulate(ElemType::f64);
  const std::string x = e.element(node.inputs[0]), by = e.element(node.inputs.at(1)), y = e.left();
  std::string power = "1";
  for (int p = 1; p < bits; ++p)
    power = fmt::format("select({} == {}, {}, {})", by, p, int64_t{1} << p, power);
  const std::string within = fmt::format("select({0} >= 0 && {0} < {1}, ", by, bits);
  if (node.text("direction", "") == "RIGHT") {
    const std::string sign = is_signed(type) ? fmt::format("select({} < 0, -1, 0)", x) : "0";
    return {e.finish(fmt::format("{} = {}floor({} / {}), {})", y, within, x, power, sign))};
  }

  // The bits that stay are multiplied, so that the product is exact.
  const double all = static_cast<double>(int64_t{1} << bits);
  const std::string p = e.left("P"),
                    kept = fmt::format("({0} - floor({0} * {1} / {2}) * ({2} / {1}))", x, p,
                                       literal(all));
  e.give_type("P", ElemType::f64);
  const std::string code = e.left("T"), shifted = fmt::format("{} = {}; {} = {}{} * {}, 0)", p,
                                                              power, code, within, kept, p);
  e.give_type("T", ElemType::f64);
  return {e.finish(fmt::format("{}; {} = {}", shifted, y, of_code(type, code)))};
}

}  // namespace

const MapFns& whole_bit_mappings() {
  static const MapFns kMappings = {{"BitwiseAnd", express_bitwise},
                                   {"BitwiseOr", express_bitwise},
                                   {"BitwiseXor", express_bitwise},
                                   {"BitwiseNot", express_bitwise_not},
                                   {"BitShift", express_shift}};
  return kMappings;
}

}  // namespace tilewright::onnx
