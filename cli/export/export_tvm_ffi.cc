// The calling convention of tvm-ffi: a function takes tagged values of 16 bytes, among them pointers to
// DLPack's tensors, and gives 0 or an error that it has raised. The layouts are those of tvm-ffi 0.1
// and DLPack 1.
#include <fmt/format.h>

#include <optional>

#include "cli/export/export_ffi.h"
#include "cli/export/export_shared.h"

namespace tilewright::cli {
namespace {

constexpr const char* kPrelude = R"(
/* tvm-ffi and DLPack, as far as they are used here. */
#include <stdio.h>
#include <string.h>
typedef struct {
  void* data;
  struct { int32_t type, id; } device;
  int32_t ndim;
  struct { uint8_t code, bits; uint16_t lanes; } dtype;
  int64_t* shape;
  int64_t* strides;
  uint64_t byte_offset;
} tw_dl_tensor;
typedef struct {
  int32_t type;
  uint32_t zero;
  union { int64_t integer; double real; void* pointer; } value;
} tw_ffi_any;
enum { TW_FFI_NONE = 0, TW_FFI_DL_TENSOR = 7, TW_FFI_TENSOR = 70, TW_FFI_OBJECT_BYTES = 24 };
enum { TW_DL_CPU = 1 };
/* Of libtvm_ffi, which whoever calls these functions has loaded. */
extern void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message)
    __attribute__((weak));

static int tw_raise(const char* kind, const char* function, const char* message) {
  char text[400];
  snprintf(text, sizeof text, "%s: %s", function, message);
  if (TVMFFIErrorSetRaisedFromCStr) TVMFFIErrorSetRaisedFromCStr(kind, text);
  return -1;
}

/* Null for what is no tensor. */
static const tw_dl_tensor* tw_as_tensor(const tw_ffi_any* arg) {
  if (arg->type == TW_FFI_DL_TENSOR) return (const tw_dl_tensor*)arg->value.pointer;
  if (arg->type == TW_FFI_TENSOR)
    return (const tw_dl_tensor*)((const char*)arg->value.pointer + TW_FFI_OBJECT_BYTES);
  return 0;
}

/* The tensor that argument `i` is. `code` and `bits` are those of its elements; 0 bits: `bytes` bytes of
 * any type. Null, with an error raised, for what is something else. */
static void* tw_tensor(const char* function, const char* name, const tw_ffi_any* arg, int code,
                       int bits, int ndim, const int64_t* shape, int64_t bytes) {
  char text[300];
  const tw_dl_tensor* t = tw_as_tensor(arg);
  if (!t) {
    snprintf(text, sizeof text, "%s: expected a tensor, got a value of type %d", name,
             (int)arg->type);
    tw_raise("TypeError", function, text);
    return 0;
  }
  if (t->device.type != TW_DL_CPU) {
    snprintf(text, sizeof text, "%s: expected a tensor on the CPU, got one on device type %d", name,
             (int)t->device.type);
    tw_raise("ValueError", function, text);
    return 0;
  }
  if (bits && (t->dtype.code != code || t->dtype.bits != bits || t->dtype.lanes != 1)) {
    snprintf(text, sizeof text,
             "%s: expected elements of DLPack type %d with %d bits, got type %d with %d bits", name,
             code, bits, (int)t->dtype.code, (int)t->dtype.bits);
    tw_raise("TypeError", function, text);
    return 0;
  }
  int64_t count = 1;
  for (int d = t->ndim - 1; d >= 0; --d) {
    if (t->strides && t->shape[d] != 1 && t->strides[d] != count) {
      snprintf(text, sizeof text, "%s: expected contiguous elements, got stride %lld along axis %d",
               name, (long long)t->strides[d], d);
      tw_raise("ValueError", function, text);
      return 0;
    }
    count *= t->shape[d];
  }
  if (bits && t->ndim != ndim) {
    snprintf(text, sizeof text, "%s: expected %d axes, got %d", name, ndim, (int)t->ndim);
    tw_raise("ValueError", function, text);
    return 0;
  }
  for (int d = 0; bits && d < ndim; ++d) {
    if (t->shape[d] == shape[d]) continue;
    snprintf(text, sizeof text, "%s: expected size %lld along axis %d, got %lld", name,
             (long long)shape[d], d, (long long)t->shape[d]);
    tw_raise("ValueError", function, text);
    return 0;
  }
  int64_t have = (count * t->dtype.bits * t->dtype.lanes + 7) / 8;
  if (!bits && have != bytes) {
    snprintf(text, sizeof text, "%s: expected %lld bytes, got %lld", name, (long long)bytes,
             (long long)have);
    tw_raise("ValueError", function, text);
    return 0;
  }
  char* data = (char*)t->data + t->byte_offset;
  if (!t->data || (uintptr_t)data % 64 != 0) {
    snprintf(text, sizeof text, "%s: expected memory that is aligned to 64 bytes, got %p", name,
             (void*)data);
    tw_raise("ValueError", function, text);
    return 0;
  }
  return data;
}

/* The size along an axis of what should be a tensor, or 0. */
static int64_t tw_size(const tw_ffi_any* arg, int axis) {
  const tw_dl_tensor* t = tw_as_tensor(arg);
  return t && axis < t->ndim ? t->shape[axis] : 0;
}
)";

// DLPack's code for elements that it has a type for and that do not share bytes.
std::optional<int> dlpack_code(ElemType elem) {
  switch (elem) {
    case ElemType::i64:
    case ElemType::i32:
    case ElemType::i16:
    case ElemType::i8: return 0;
    case ElemType::u64:
    case ElemType::u32:
    case ElemType::u16:
    case ElemType::u8: return 1;
    case ElemType::f64:
    case ElemType::f32:
    case ElemType::f16: return 2;
    case ElemType::bf16: return 4;
    case ElemType::f8e4m3: return 10;
    case ElemType::f8e5m2: return 12;
    case ElemType::e8m0: return 14;
    default: return std::nullopt;
  }
}

// The lines that find one operand among the arguments.
std::string find_operand(const KernelParam& p, size_t i, bool packed,
                         const std::vector<std::string>& dims) {
  const std::optional<int> code = packed ? std::nullopt : dlpack_code(p.elem);
  std::string shape;
  for (const KernelExtent& e : p.shape) shape += (shape.empty() ? "" : ", ") + e.to_c(dims);
  return fmt::format(
      "  const int64_t shape_{0}[] = {{{1}}};\n"
      "  if (!(found[{0}] = tw_tensor(function, \"{2}\", &args[{0}], {3}, {4}, {5}, shape_{0}, "
      "{6}))) "
      "{{\n    return -1;\n  }}\n",
      i, shape.empty() ? "1" : shape, p.name, code.value_or(0), code ? bits_of(p.elem) : 0,
      p.shape.size(), bytes_text(p, dims));
}

std::string text_of(const FfiFunction& f, const ExportedKernel& k) {
  const std::vector<std::string> c_names = c_dims(f, k);
  const auto size = [](size_t operand, size_t axis) {
    return fmt::format("tw_size(&args[{}], {})", operand, axis);
  };
  std::string operands;
  std::string body = read_dims(f, k, size, [](const std::string& message) {
    return fmt::format("tw_raise(\"ValueError\", function, \"{}\")", message);
  });
  for (size_t i = 0; i < f.params.size(); ++i) {
    operands += (operands.empty() ? "" : ", ") + f.params[i]->name;
    body += find_operand(*f.params[i], i, f.packed[i], c_names);
  }
  return fmt::format(
      "\nint __tvm_ffi_{0}(void* self, const tw_ffi_any* args, int32_t num_args, tw_ffi_any* "
      "result) "
      "{{\n  static const char* const function = \"{0}({1})\";\n  void* found[{2}];\n"
      "  (void)self;\n"
      "  if (num_args != {2}) return tw_raise(\"TypeError\", function, \"expected {2} tensors\");\n"
      "{3}  const int64_t dims[] = {{{4}}};\n  (void)dims;\n"
      "  if ({5} != 0) return tw_raise(\"MemoryError\", function, \"out of memory\");\n"
      "  result->type = TW_FFI_NONE;\n  result->zero = 0;\n  result->value.integer = 0;\n"
      "  return 0;\n}}\n",
      f.name, operands, f.params.size(), body,
      c_names.empty() ? "0" : fmt::to_string(fmt::join(c_names, ", ")), f.call("found"));
}

}  // namespace

std::string tvm_ffi_functions(const ExportedKernel& k) {
  std::string text = kPrelude;
  for (const FfiFunction& f : ffi_functions(k)) text += text_of(f, k);
  return text;
}

}  // namespace tilewright::cli
