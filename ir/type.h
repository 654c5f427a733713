// Element types and vector types.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tilewright {

// Every element type that a workload, a packed format or a target may name. Sub-byte types occupy
// exactly `bits` bits of a packed buffer, lowest bits first.
//
//  - `nf4` and `f4e2m1` are codes into a table of 16 values (QLoRA, appendix E; OCP MX v1.0,
//    5.3.3).
//  - `e8m0` is a power of two (OCP MX v1.0, 5.4.1).
//  - `i1` stands for -1 (bit 0) and +1 (bit 1).
//  - `boolean` is the result of a comparison.
//  - `index` is the 64-bit signed type of loop variables and subscripts.
enum class ElemType : uint8_t {
  f64,
  f32,
  f16,
  bf16,
  f8e4m3,
  f8e5m2,
  f4e2m1,
  nf4,
  e8m0,
  i64,
  i32,
  i16,
  i8,
  i4,
  i2,
  i1,
  u64,
  u32,
  u16,
  u8,
  u4,
  u2,
  u1,
  boolean,
  index,
};

enum class ElemKind : uint8_t { Float, Int, UInt, Bool, Index };

struct ElemInfo {
  ElemType elem;
  std::string_view name;
  ElemKind kind;
  int bits;
};

const ElemInfo& info(ElemType elem);
// The type called `name`, or nothing. Names are those of the enumerators.
std::optional<ElemType> parse_elem_type(std::string_view name);
// "f64, f32, …", for messages that list the accepted types.
std::string elem_type_names();

inline int bits_of(ElemType e) { return info(e).bits; }
inline bool is_float(ElemType e) { return info(e).kind == ElemKind::Float; }
// Signed, unsigned and index types; not boolean.
bool is_integer(ElemType e);
// Bytes that `count` packed elements of type `e` occupy, rounded up to whole bytes.
int64_t bytes_for(ElemType e, int64_t count);

// An element type and a number of vector lanes (1 for a scalar).
struct Type {
  ElemType elem = ElemType::f32;
  int lanes = 1;

  Type() = default;
  Type(ElemType e, int l = 1) : elem(e), lanes(l) {}
  bool is_scalar() const { return lanes == 1; }
  Type with_lanes(int l) const { return {elem, l}; }
  bool operator==(const Type&) const = default;
};

// "f32" or "f32x16".
std::string to_string(Type type);
inline std::string to_string(ElemType elem) { return std::string(info(elem).name); }

// Rounds to the nearest value of `elem`, so that f64 arithmetic can stand in for any type. Ties go
// to even for floats; fp8 and the 4-bit floats saturate, and integers wrap.
double round_to(ElemType elem, double value);

// The value of the nf4 code 0..15.
double nf4_value(int code);

}  // namespace tilewright
