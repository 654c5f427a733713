#include "runtime/tensor/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/files.h"
#include "runtime/tensor/element.h"

namespace tilewright {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";

struct Dtype {
  std::string_view code;
  ElemType elem;
};

constexpr std::array kDtypes = {
    Dtype{"f8", ElemType::f64}, Dtype{"f4", ElemType::f32}, Dtype{"f2", ElemType::f16},
    Dtype{"i1", ElemType::i8},  Dtype{"i2", ElemType::i16}, Dtype{"i4", ElemType::i32},
    Dtype{"i8", ElemType::i64}, Dtype{"u1", ElemType::u8},  Dtype{"u2", ElemType::u16},
    Dtype{"u4", ElemType::u32}, Dtype{"u8", ElemType::u64}, Dtype{"b1", ElemType::boolean},
};

[[noreturn]] void fail(const std::string& path, const std::string& what) {
  throw FileError(path + ": " + what);
}

// Reads the dictionary that a header is: {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  void read() {
    expect('{');
    while (!take('}')) {
      std::string key = string();
      expect(':');
      if (key == "descr") {
        descr = string();
      } else if (key == "fortran_order") {
        fortran_order = boolean();
      } else if (key == "shape") {
        shape = tuple();
      } else {
        bad("unknown key '" + key + "'");
      }
      if (!take(',') && !at('}')) bad("expected ',' or '}'");
    }
    if (!descr || !fortran_order || !shape) bad("'descr', 'fortran_order' or 'shape' is missing");
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;

 private:
  [[noreturn]] void bad(const std::string& what) {
    fail(path_, fmt::format("damaged header at byte {}: {}", position_, what));
  }
  void skip_space() {
    while (position_ < text_.size() && std::strchr(" \n\t", text_[position_])) ++position_;
  }
  bool at(char c) {
    skip_space();
    return position_ < text_.size() && text_[position_] == c;
  }
  bool take(char c) {
    bool found = at(c);
    position_ += found;
    return found;
  }
  void expect(char c) {
    if (!take(c)) bad(std::string("expected '") + c + "'");
  }
  std::string string() {
    skip_space();
    char quote = at('"') ? '"' : '\'';
    if (at('[')) bad("structured types are not supported");
    expect(quote);
    size_t end = text_.find(quote, position_);
    if (end == std::string_view::npos) bad("a string does not end");
    std::string value(text_.substr(position_, end - position_));
    position_ = end + 1;
    return value;
  }
  bool boolean() {
    skip_space();
    for (bool value : {true, false}) {
      std::string_view word = value ? "True" : "False";
      if (text_.substr(position_, word.size()) != word) continue;
      position_ += word.size();
      return value;
    }
    bad("expected True or False");
  }
  std::vector<int64_t> tuple() {
    std::vector<int64_t> list;
    expect('(');
    while (!take(')')) {
      skip_space();
      int64_t value = -1;
      auto [end, error] =
          std::from_chars(text_.data() + position_, text_.data() + text_.size(), value);
      if (error != std::errc() || value < 0) bad("expected an extent");
      position_ = static_cast<size_t>(end - text_.data());
      list.push_back(value);
      if (!take(',') && !at(')')) bad("expected ',' or ')'");
    }
    return list;
  }

  std::string_view text_;
  const std::string& path_;
  size_t position_ = 0;
};

ElemType parse_dtype(const std::string& descr, const std::string& path) {
  std::string known;
  for (const Dtype& d : kDtypes) known += (known.empty() ? "" : ", ") + std::string(d.code);
  bool sized = descr.size() == 3;
  if (sized && descr[0] == '>' && descr[2] != '1') {
    fail(path, "big-endian type '" + descr + "'; convert with a.astype(a.dtype.newbyteorder('<'))");
  }
  for (const Dtype& d : kDtypes) {
    if (sized && descr.substr(1) == d.code && std::strchr("<|=>", descr[0])) return d.elem;
  }
  fail(path, "type '" + descr + "' is not supported; supported: " + known);
}

// Where the header's text lies, from the fixed bytes before it.
std::string_view header_text(std::string_view file, const std::string& path) {
  if (file.substr(0, kMagic.size()) != kMagic) fail(path, "not a .npy file");
  if (file.size() < 10) fail(path, "ends within its header");
  int major = static_cast<unsigned char>(file[6]), minor = static_cast<unsigned char>(file[7]);
  if (major < 1 || major > 3) {
    fail(path, fmt::format(".npy version {}.{}; versions 1.0 to 3.0 are supported", major, minor));
  }
  size_t width = major == 1 ? 2 : 4, length = 0;
  if (file.size() < 8 + width) fail(path, "ends within its header");
  for (size_t i = 0; i < width; ++i) {
    length |= static_cast<size_t>(static_cast<unsigned char>(file[8 + i])) << (8 * i);
  }
  if (file.size() - 8 - width < length) fail(path, "ends within its header");
  return file.substr(8 + width, length);
}

// The type as which one is written.
ElemType written_type(ElemType elem) {
  for (const Dtype& d : kDtypes) {
    if (d.elem == elem) return elem;
  }
  if (elem == ElemType::index) return ElemType::i64;
  if (is_float(elem)) return ElemType::f32;
  return info(elem).kind == ElemKind::UInt ? ElemType::u8 : ElemType::i8;
}

std::vector<int64_t> without_leading_ones(const std::vector<int64_t>& shape) {
  auto first = std::find_if(shape.begin(), shape.end(), [](int64_t e) { return e != 1; });
  return {first, shape.end()};
}

}  // namespace

int64_t NpyArray::count() const { return view().count(); }

double NpyArray::get(int64_t flat_index) const {
  return load_element(elem, bytes.data(), flat_index);
}

NpyArray parse_npy(std::string_view file, const std::string& path) {
  std::string_view text = header_text(file, path);
  HeaderReader header(text, path);
  header.read();
  NpyArray array;
  array.elem = parse_dtype(*header.descr, path);
  array.shape = std::move(*header.shape);
  if (*header.fortran_order && array.shape.size() > 1) {
    fail(path, "Fortran order; convert with numpy.ascontiguousarray(a)");
  }
  int64_t count = 1;
  for (int64_t extent : array.shape) {
    if (__builtin_mul_overflow(count, extent, &count) || count > (int64_t{1} << 56)) {
      fail(path, "shape " + describe_shape(array.shape) + " overflows");
    }
  }
  auto wanted = static_cast<size_t>(bytes_for(array.elem, count));
  std::string_view data = file.substr(static_cast<size_t>(text.data() - file.data()) + text.size());
  if (data.size() != wanted) {
    fail(path, fmt::format("holds {} bytes of data; {} {} needs {}", data.size(),
                           to_string(array.elem), describe_shape(array.shape), wanted));
  }
  array.bytes.assign(data);
  return array;
}

NpyArray read_npy(const std::string& path) {
  errno = 0;
  std::optional<std::string> file = read_file(path);
  if (!file) {
    fail(path, std::string("cannot be read: ") + (errno ? std::strerror(errno) : "no plain file"));
  }
  return parse_npy(*file, path);
}

std::string format_npy(const TensorView& array) {
  ElemType type = written_type(array.elem);
  std::string_view code;
  for (const Dtype& d : kDtypes) {
    if (d.elem == type) code = d.code;
  }
  std::string shape =
      fmt::format("({}{})", fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  std::string header = fmt::format("{{'descr': '{}{}', 'fortran_order': False, 'shape': {}, }}",
                                   bits_of(type) == 8 ? '|' : '<', code, shape);
  // The data begins at a multiple of 64 bytes, as NumPy has it.
  size_t unpadded = kMagic.size() + 4 + header.size() + 1;
  header.append((64 - unpadded % 64) % 64, ' ');
  header += '\n';
  std::string file(kMagic);
  file += {'\1', '\0', static_cast<char>(header.size()), static_cast<char>(header.size() >> 8)};
  file += header;
  size_t begin = file.size();
  file.resize(begin + static_cast<size_t>(bytes_for(type, array.count())));
  if (type == array.elem) {
    std::memcpy(file.data() + begin, array.data, file.size() - begin);
    return file;
  }
  for (int64_t i = 0; i < array.count(); ++i) {
    store_element(type, file.data() + begin, i, array.get(i));
  }
  return file;
}

void write_npy(const std::string& path, const TensorView& array) {
  if (!write_file_atomic(path, format_npy(array))) fail(path, "cannot be written");
}

namespace {

// Whether integers of this type stand for the codes of a float type that NumPy lacks.
bool holds_codes(ElemType elem, ElemType file) {
  if (elem == ElemType::nf4 || elem == ElemType::f4e2m1) return is_integer(file);
  return is_float(elem) && bits_of(elem) == 8 && file == ElemType::u8;
}

void assign_codes(HostArray* array, const TensorView& values, const std::string& path) {
  const auto most = static_cast<double>((1 << bits_of(array->elem())) - 1);
  for (int64_t i = 0; i < array->count(); ++i) {
    double code = values.get(i);
    if (code < 0 || code > most) {
      fail(path, fmt::format("element {} is {}, which is no code of {}; expected 0 to {}", i, code,
                             to_string(array->elem()), most));
    }
    array->set(i, decode_element(array->elem(), static_cast<uint64_t>(code)));
  }
}

}  // namespace

void assign(HostArray* array, const TensorView& values, const std::string& path) {
  std::string wanted = to_string(array->elem()) + describe_shape(array->shape());
  if (without_leading_ones(values.shape) != without_leading_ones(array->shape())) {
    fail(path, fmt::format("shape {} does not fit operand '{}', which is {}",
                           describe_shape(values.shape), array->name(), wanted));
  }
  if (is_float(values.elem) && !is_float(array->elem())) {
    fail(path, fmt::format("{} does not fit operand '{}', which is {}; convert it to integers",
                           to_string(values.elem), array->name(), wanted));
  }
  if (values.elem == array->elem()) {
    std::memcpy(array->data(), values.data, static_cast<size_t>(array->bytes()));
    return;
  }
  if (holds_codes(array->elem(), values.elem)) return assign_codes(array, values, path);
  bool integers = !is_float(array->elem());
  for (int64_t i = 0; i < array->count(); ++i) {
    double value = values.get(i);
    if (integers && round_to(array->elem(), value) != value) {
      fail(path, fmt::format("element {} is {}, which {} cannot hold", i, value,
                             to_string(array->elem())));
    }
    array->set(i, value);
  }
}

}  // namespace tilewright
