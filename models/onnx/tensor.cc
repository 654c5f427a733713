// The constants of a model.
#include <fmt/format.h>

#include <array>
#include <cstring>
#include <limits>

#include "models/onnx/model.h"
#include "models/onnx/read.h"
#include "runtime/tensor/element.h"

namespace tilewright::onnx {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 56;

// By number.
constexpr std::array<std::string_view, 27> kNames = {
    "",           "f32",    "u8",         "i8",  "u16", "i16",    "i32",  "i64",  "strings",
    "bool",       "f16",    "f64",        "u32", "u64", "c64",    "c128", "bf16", "f8e4m3",
    "f8e4m3fnuz", "f8e5m2", "f8e5m2fnuz", "u4",  "i4",  "f4e2m1", "e8m0", "u2",   "i2"};

int64_t count_of(const Field& field, const Tensor& t) {
  int64_t count = 1;
  for (int64_t extent : t.shape) {
    if (extent < 0) {
      field.fail(
          fmt::format("expected sizes of 0 or more for tensor '{}', found {}", t.name, extent));
    }
    if (__builtin_mul_overflow(count, extent, &count) || count > kMaxElements) {
      field.fail(fmt::format("the shape of tensor '{}' overflows", t.name));
    }
  }
  return count;
}

// Elements below a byte share one, also where each byte is stored as a number of its own.
int64_t numbers_for(ElemType elem, int64_t count) {
  return bits_of(elem) < 8 ? bytes_for(elem, count) : count;
}

// Whether the data are as many as the shape says.
void check_data(const Field& field, const Tensor& t, bool raw) {
  std::optional<ElemType> elem = elem_type(t.type);
  if (!elem || t.external) return;
  auto expect = [&](int64_t want, size_t have, const char* what) {
    if (static_cast<uint64_t>(want) == have) return;
    field.fail(fmt::format("expected {} {} in tensor '{}' of {} elements of {}, found {}", want,
                           what, t.name, t.count, describe(t.type), have));
  };
  if (raw) {
    const int64_t bytes = *elem == ElemType::boolean ? t.count : bytes_for(*elem, t.count);
    expect(bytes, t.raw.size(), "bytes");
  } else if (!t.reals.empty()) {
    expect(t.count, t.reals.size(), "numbers");
  } else if (!t.integers.empty()) {
    expect(numbers_for(*elem, t.count), t.integers.size(), "numbers");
  }
}

// One of the keys that say where data lie.
void read_place(const Field& field, ExternalPlace* place) {
  const std::string what = "where a tensor's data lie";
  std::string key, value;
  Message message = field.message(what);
  while (std::optional<Field> f = message.next()) {
    if (f->number() == 1) key = f->text(what);
    if (f->number() == 2) value = f->text(what);
  }
  if (key == "location") place->location = value;
  if (key == "offset") place->offset = value;
  if (key == "length") place->length = value;
}

}  // namespace

std::optional<ElemType> elem_type(DataType type) {
  if (type == DataType::Bool) return ElemType::boolean;
  const auto number = static_cast<size_t>(type);
  if (number >= kNames.size() || kNames[number].empty()) return std::nullopt;
  return parse_elem_type(kNames[number]);
}

std::string describe(DataType type) {
  const auto number = static_cast<size_t>(type);
  if (number > 0 && number < kNames.size()) return std::string(kNames[number]);
  return fmt::format("type {}", static_cast<int32_t>(type));
}

bool Tensor::readable() const {
  if (external || !elem_type(type)) return false;
  return count == 0 || !raw.empty() || !reals.empty() || !integers.empty();
}

double Tensor::at(int64_t index) const {
  const ElemType elem = *elem_type(type);
  const auto i = static_cast<size_t>(index);
  if (!raw.empty()) {
    return elem == ElemType::boolean ? static_cast<double>(raw[i] != 0)
                                     : load_element(elem, raw.data(), index);
  }
  if (!reals.empty()) return reals[i];
  if (elem == ElemType::u64) return static_cast<double>(static_cast<uint64_t>(integers[i]));
  if (elem == ElemType::boolean || (is_integer(elem) && bits_of(elem) >= 8)) {
    return static_cast<double>(integers[i]);
  }
  const int bits = bits_of(elem), shared = bits < 8 ? 8 / bits : 1;
  const auto number = static_cast<uint64_t>(integers[i / static_cast<size_t>(shared)]);
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  return decode_element(elem, number >> (bits * static_cast<int>(index % shared)) & mask);
}

int64_t Tensor::whole_at(int64_t index) const {
  // Doubles hold the elements of all but the widest types exactly.
  const ElemType elem = *elem_type(type);
  if (elem != ElemType::i64 && elem != ElemType::u64) return static_cast<int64_t>(at(index));
  int64_t value = 0;
  if (raw.empty()) {
    value = integers[static_cast<size_t>(index)];
  } else {
    std::memcpy(&value, raw.data() + index * static_cast<int64_t>(sizeof value), sizeof value);
  }
  const bool beyond = elem == ElemType::u64 && value < 0;
  return beyond ? std::numeric_limits<int64_t>::max() : value;
}

Tensor read_tensor(const Field& field, const std::string& what) {
  Tensor t;
  bool raw = false;
  Message message = field.message(what);
  while (std::optional<Field> f = message.next()) {
    switch (f->number()) {
      case 1: f->integers("the sizes of " + what, &t.shape); break;
      case 2: t.type = static_cast<DataType>(f->integer("the type of " + what)); break;
      case 4: f->reals("the elements of " + what, &t.reals); break;
      case 5:
      case 7:
      case 11: f->integers("the elements of " + what, &t.integers); break;
      case 8: t.name = f->text("the name of " + what); break;
      case 9:
        t.raw = f->bytes("the elements of " + what);
        raw = true;
        break;
      case 10: f->doubles("the elements of " + what, &t.reals); break;
      case 13:
        t.external = true;
        read_place(*f, &t.place);
        break;
      case 14: t.external = t.external || f->integer("where " + what + " lies") == 1; break;
      default: break;
    }
  }
  t.count = count_of(field, t);
  check_data(field, t, raw);
  return t;
}

}  // namespace tilewright::onnx
