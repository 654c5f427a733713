// NumPy's .npy files (format versions 1.0 to 3.0, little-endian, C order).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ir/type.h"
#include "runtime/error.h"
#include "runtime/tensor/array.h"
#include "runtime/tensor/tensor_view.h"

namespace tilewright {

struct NpyArray {
  ElemType elem = ElemType::f32;  // f64 f32 f16, i8 to i64, u8 to u64, boolean
  std::vector<int64_t> shape;     // empty: one number
  std::string bytes;              // packed, row-major

  int64_t count() const;
  double get(int64_t flat_index) const;
  TensorView view() const { return {elem, shape, bytes.data()}; }
};

// Throws FileError that names the file and says what is wrong with it: not a .npy file, a version,
// type or order that is not supported (with how to convert it), a header that does not fit, missing
// or surplus bytes.
NpyArray read_npy(const std::string& path);
// The same for the text of a file that is called `path`.
NpyArray parse_npy(std::string_view file, const std::string& path);

// A file of version 1.0. Types that NumPy lacks are widened: bf16 and 8-bit floats to f4, nf4 and
// 4-bit floats too, narrow integers to i1 or u1. Throws FileError when it cannot be written.
void write_npy(const std::string& path, const TensorView& array);
inline void write_npy(const std::string& path, const HostArray& array) {
  write_npy(path, view_of(array));
}
std::string format_npy(const TensorView& array);
inline std::string format_npy(const HostArray& array) { return format_npy(view_of(array)); }

// Copies the values into `array`, rounding to nearest even where its type is narrower: f32 files feed
// f16, bf16 and fp8 operands, integer files feed the low-bit ones. Integers for nf4 and f4e2m1, and u8
// for the 8-bit floats, are codes. Throws FileError that begins with
// `path` when the shapes differ, when floats would have to become integers, or when an integer does
// not fit; extents of 1 may be left out in front.
void assign(HostArray* array, const TensorView& values, const std::string& path);
inline void assign(HostArray* array, const NpyArray& values, const std::string& path) {
  assign(array, values.view(), path);
}

}  // namespace tilewright
