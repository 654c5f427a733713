#include "runtime/tensor/seeded.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/error.h"
#include "runtime/tensor/element.h"

namespace tilewright {
namespace {

// A counter-based hash (the finalizer of splitmix64): the element's index is the state.
inline uint64_t mix(uint64_t key, int64_t index) {
  uint64_t z = key + static_cast<uint64_t>(index) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

inline float uniform_f32(uint64_t hash) {
  return static_cast<float>(static_cast<int64_t>(hash >> 40)) * 0x1p-23f - 1.0f;
}

inline double uniform_f64(uint64_t hash) {
  return static_cast<double>(static_cast<int64_t>(hash >> 11)) * 0x1p-52 - 1.0;
}

// Writes codes of less than a byte side by side, from the low bits on; a byte holds a whole number of
// them. `code_of` gives that of an index.
template <class CodeOf>
void write_codes(int bits, unsigned char* bytes, int64_t count, const CodeOf& code_of) {
  const int64_t of_byte = 8 / bits;
  for (int64_t i = 0; i < count; i += of_byte) {
    uint64_t byte = 0;
    for (int64_t j = 0; j < std::min(of_byte, count - i); ++j) byte |= code_of(i + j) << (j * bits);
    bytes[i / of_byte] = static_cast<unsigned char>(byte);
  }
}

// Writes `count` codes of a type.
template <class CodeOf>
void write_all(ElemType elem, unsigned char* bytes, int64_t count, const CodeOf& code_of) {
  const int bits = bits_of(elem);
  if (bits < 8) return write_codes(bits, bytes, count, code_of);
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t code = code_of(i);
    std::memcpy(bytes + i * (bits / 8), &code, static_cast<size_t>(bits / 8));
  }
}

// A number in [0, count), from the high bits of the hash.
inline uint64_t below(uint64_t hash, uint64_t count) {
  return static_cast<uint64_t>(static_cast<unsigned __int128>(hash) * count >> 64);
}

constexpr double kFar = 3000;  // beyond every exponential, and a number of f16
// Powers of two by which rows are large; types of 8 bits hold less. Every other such row is vast where
// its type allows: even a maximum that is rounded to 8 bits then lets the exponential overflow.
constexpr int kLarge = 9, kVast = 17, kLargeNarrow = 3;
// The mixed magnitudes of types with 16 bits and more: that many powers of two from the lowest on.
constexpr int kLowestPower = -12;
constexpr uint64_t kPowers = 19;
constexpr uint64_t kLineTurns = 8, kLengthTurns = 8;

// The ends of an integer type. Right values are f64, which does not hold the last ones of 64 bits. With these ends
// sums, and products of two, are whole numbers that f64 holds, and 32 bits do not hold the higher end.
double highest_integer(ElemType elem) { return bits_of(elem) < 64 ? max_finite(elem) : 0x1p31; }

double lowest_integer(ElemType elem) {
  if (info(elem).kind != ElemKind::Int) return 0;
  return bits_of(elem) < 64 ? -max_finite(elem) - 1 : -0x1p31;
}

bool has_infinity(ElemType elem) {
  return elem == ElemType::f64 || elem == ElemType::f32 || elem == ElemType::f16 ||
         elem == ElemType::bf16;
}

// Types whose every code is an ordinary value.
bool uniform_codes(ElemType elem) {
  const ElemInfo& t = info(elem);
  if (elem == ElemType::nf4 || elem == ElemType::f4e2m1) return true;
  return is_integer(elem) && t.bits <= 8;
}

}  // namespace

SeededValues::SeededValues(uint64_t seed, std::string_view operand, ElemType elem,
                           std::optional<ValueRange> range, std::optional<HardValues> hard)
    // Hard values are other values everywhere.
    : key_(XXH3_64bits_withSeed(operand.data(), operand.size(), hard ? ~seed : seed)), elem_(elem),
      range_(range), hard_(hard) {
  TW_ASSERT(!range_ || range_->min <= range_->max, "a range of test values needs min <= max");
}

// The value of an element whose hash is `hash`; `fraction16` are its 16 highest bits.
double SeededValues::quantize(uint64_t fraction16, uint64_t hash) const {
  if (elem_ == ElemType::f64) return uniform_f64(hash);
  if (elem_ == ElemType::f32) return uniform_f32(hash);
  if (elem_ == ElemType::boolean) return static_cast<double>(fraction16 >> 15);
  if (elem_ == ElemType::e8m0) return std::ldexp(1.0, static_cast<int>(fraction16 * 7 >> 16) - 3);
  if (is_float(elem_)) return round_to(elem_, static_cast<double>(fraction16) * 0x1p-15 - 1.0);
  double offset = info(elem_).kind == ElemKind::UInt ? 0 : -128;
  return static_cast<double>(fraction16 >> 8) + offset;
}

uint64_t SeededValues::code_at(int64_t flat_index) const {
  const uint64_t hash = mix(key_, flat_index);
  return hard_ ? hard_code(flat_index, hash) : ordinary_code(hash);
}

uint64_t SeededValues::turn_of(int64_t line, uint64_t turns) const {
  return (static_cast<uint64_t>(line) + (key_ >> 32)) % turns;
}

// In a line that is compared: all of it far from 0, or one element beyond all others, at an end or at
// a place that moves from line to line.
double SeededValues::far_value(int64_t flat_index, double ordinary) const {
  const int64_t length = hard_->line_length, stride = hard_->line_stride;
  const int64_t place = flat_index / stride % length;
  const int64_t line = flat_index / (stride * length) * stride + flat_index % stride;
  const uint64_t turn = turn_of(line, kLineTurns);
  const bool swept = hard_->line_extreme >= 0;
  const bool integer = is_integer(elem_), high = swept ? hard_->line_high : turn % 2 == 1;
  const double end =
      integer ? (high ? highest_integer(elem_) : lowest_integer(elem_)) : (high ? kFar : -kFar);
  const double inside = integer ? std::trunc(ordinary / 2) : ordinary;
  if (swept) return place == (line + hard_->line_extreme) % length ? end : inside;
  if (turn < 2) {
    const double inward = integer ? std::trunc(std::abs(ordinary) / 8) : ordinary;
    return integer && high ? end - inward : end + inward;
  }
  const auto moving = static_cast<int64_t>(turn_of(line, static_cast<uint64_t>(length)));
  const int64_t extreme = turn < 4 ? length - 1 : turn < 6 ? 0 : moving;
  return place == extreme ? end : inside;
}

std::optional<double> SeededValues::length_at(int64_t flat_index) const {
  switch (turn_of(flat_index, kLengthTurns)) {
    case 0: return range_->min;
    case 2: return std::min(range_->min + 1, range_->max);
    case 4: return range_->max;
    case 6: return std::max(range_->max - 1, range_->min);
    default: return std::nullopt;
  }
}

// The low bits of the hash choose, the high ones are the ordinary value's.
uint64_t SeededValues::hard_code(int64_t flat_index, uint64_t hash) const {
  const auto choice = static_cast<int>(hash & 15);
  if (hard_->lengths && range_) {
    const std::optional<double> length = length_at(flat_index);
    return length ? encode_element(elem_, *length) : ordinary_code(hash);
  }
  if (hard_->line_length > 0 && !range_) {
    const double ordinary = decode_element(elem_, ordinary_code(hash));
    return encode_element(elem_, far_value(flat_index, ordinary));
  }
  if (is_integer(elem_)) {
    const bool low = choice < 3, high = choice >= 3 && choice < 6;
    if (range_ && (low || high)) return encode_element(elem_, low ? range_->min : range_->max);
    if (low) return encode_element(elem_, lowest_integer(elem_));
    if (high) return encode_element(elem_, highest_integer(elem_));
    return ordinary_code(hash);
  }
  const bool plain = range_ || elem_ == ElemType::e8m0 || elem_ == ElemType::boolean;
  if (plain || uniform_codes(elem_)) return ordinary_code(hash);
  const bool special = hard_->special_every > 0 && has_infinity(elem_) &&
                       below(mix(hash, 0), static_cast<uint64_t>(hard_->special_every)) == 0;
  if (special) {
    constexpr double kSpecial[] = {HUGE_VAL, -HUGE_VAL, NAN};
    return encode_element(elem_, kSpecial[(hash >> 16) % 3]);
  }
  const uint64_t turn = hard_->large_rows > 0 ? turn_of(flat_index / hard_->large_rows, 4) : 1;
  if (turn % 2 == 0) {
    const double value = decode_element(elem_, ordinary_code(hash));
    const bool vast = turn == 2 && max_finite(elem_) > std::ldexp(1.0, kVast + 1);
    const int power = bits_of(elem_) <= 8 ? kLargeNarrow : vast ? kVast : kLarge;
    return encode_element(elem_, std::ldexp(value, power));
  }
  if (choice == 0) return encode_element(elem_, 0.0);
  if (choice == 1) return encode_element(elem_, -0.0);
  if (choice > 5) return ordinary_code(hash);
  const bool narrow = bits_of(elem_) <= 8;
  const int lowest = narrow ? -4 : kLowestPower;
  const uint64_t steps = narrow ? 8 : kPowers;
  const double value = decode_element(elem_, ordinary_code(hash));
  return encode_element(elem_, std::ldexp(value, lowest + static_cast<int>((hash >> 4) % steps)));
}

bool SeededValues::is_simple_hard_f32() const {
  return elem_ == ElemType::f32 && !range_ && hard_ && !hard_->lengths && hard_->line_length == 0 &&
         hard_->large_rows == 0;
}

bool SeededValues::is_simple_hard_code() const {
  return uniform_codes(elem_) && !range_ && hard_ && !hard_->lengths && hard_->line_length == 0;
}

// The value that hard_code() makes of it, without a detour by f64.
float SeededValues::simple_hard_f32(uint64_t hash) const {
  const auto choice = static_cast<int>(hash & 15);
  const bool special = hard_->special_every > 0 &&
                       below(mix(hash, 0), static_cast<uint64_t>(hard_->special_every)) == 0;
  if (special) {
    constexpr float kSpecial[] = {HUGE_VALF, -HUGE_VALF, NAN};
    return kSpecial[(hash >> 16) % 3];
  }
  if (choice < 2) return choice == 0 ? 0.0f : -0.0f;
  const float value = uniform_f32(hash);
  if (choice > 5) return value;
  return std::ldexp(value, kLowestPower + static_cast<int>((hash >> 4) % kPowers));
}

uint64_t SeededValues::ordinary_code(uint64_t hash) const {
  if (range_ && is_float(elem_)) {
    double fraction = (uniform_f64(hash) + 1) / 2;
    return encode_element(elem_, range_->min + fraction * (range_->max - range_->min));
  }
  if (range_) {
    auto count = static_cast<uint64_t>(range_->max - range_->min) + 1;
    return encode_element(elem_, range_->min + static_cast<double>(below(hash, count)));
  }
  if (uniform_codes(elem_)) return hash >> (64 - bits_of(elem_));
  return encode_element(elem_, quantize(hash >> 48, hash));
}

double SeededValues::at(int64_t flat_index) const {
  return decode_element(elem_, code_at(flat_index));
}

void SeededValues::fill(void* data, int64_t count) const {
  const int bits = bits_of(elem_);
  auto* bytes = static_cast<unsigned char*>(data);
  if (elem_ == ElemType::f32 && !range_ && !hard_) {
    for (int64_t i = 0; i < count; ++i) {
      float value = uniform_f32(mix(key_, i));
      std::memcpy(bytes + i * 4, &value, 4);
    }
    return;
  }
  if (is_simple_hard_f32()) {
    for (int64_t i = 0; i < count; ++i) {
      const float value = simple_hard_f32(mix(key_, i));
      std::memcpy(bytes + i * 4, &value, 4);
    }
    return;
  }
  // Narrow types are a function of the 16 highest bits of the hash: one table for all elements.
  std::vector<uint16_t> table;
  if (!range_ && !hard_ && bits <= 16 && count > (1 << 16)) {
    table.resize(1 << 16);
    for (uint64_t f = 0; f < table.size(); ++f) {
      uint64_t code =
          uniform_codes(elem_) ? f >> (16 - bits) : encode_element(elem_, quantize(f, 0));
      table[f] = static_cast<uint16_t>(code);
    }
  }
  if (!table.empty()) {
    return write_all(elem_, bytes, count, [&](int64_t i) { return table[mix(key_, i) >> 48]; });
  }
  if (is_simple_hard_code()) {
    // The choices of hard_code(), in tables: a branch would often be mispredicted.
    std::array<uint64_t, 16> end = {}, mask;
    mask.fill(~uint64_t{0});
    for (size_t choice = 0; choice < 6 && is_integer(elem_); ++choice) {
      const double value = choice < 3 ? lowest_integer(elem_) : max_finite(elem_);
      end[choice] = encode_element(elem_, value);
      mask[choice] = 0;
    }
    return write_all(elem_, bytes, count, [&, key = key_](int64_t i) {
      const uint64_t hash = mix(key, i), choice = hash & 15;
      return (hash >> (64 - bits) & mask[choice]) | end[choice];
    });
  }
  write_all(elem_, bytes, count, [&](int64_t i) { return code_at(i); });
}

}  // namespace tilewright
