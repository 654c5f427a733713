// XLA's foreign functions, which jax.ffi calls: a handler takes a frame with buffers and gives null or an
// error. The layouts are those of xla/ffi/api/c_api.h, major version 0. Its structs tell their size and
// grow at their ends.
#include <fmt/format.h>

#include <optional>

#include "cli/export/export_ffi.h"
#include "cli/export/export_shared.h"

namespace tilewright::cli {
namespace {

constexpr const char* kXlaPrelude = R"C(
/* XLA's interface for foreign functions, as far as it is used here. */
#include <stdio.h>
#include <string.h>
typedef struct tw_xla_extension {
  size_t struct_size;
  int32_t type;
  struct tw_xla_extension* next;
} tw_xla_extension;
typedef struct {
  size_t struct_size;
  void* extensions;
  int32_t major, minor;
} tw_xla_version;
typedef struct {
  size_t struct_size;
  void* extensions;
  const char* message;
  int32_t code;
} tw_xla_error_args;
typedef struct {
  size_t struct_size;
  void* extensions;
  tw_xla_version version;
  const void* internal;
  void* (*create_error)(tw_xla_error_args*);
} tw_xla_api;
typedef struct {
  size_t struct_size;
  void* extensions;
  int32_t type;
  void* data;
  int64_t rank;
  int64_t* dims;
} tw_xla_buffer;
typedef struct {
  size_t struct_size;
  void* extensions;
  int64_t size;
  int32_t* types;
  tw_xla_buffer** buffers;
} tw_xla_buffers;
typedef struct {
  size_t struct_size;
  tw_xla_extension* extensions;
  const tw_xla_api* api;
  void* context;
  int32_t stage;
  tw_xla_buffers in, out;
} tw_xla_frame;
typedef struct {
  size_t struct_size;
  tw_xla_version version;
  uint32_t traits;
  int64_t state_type; /* of later versions */
} tw_xla_metadata;
typedef struct {
  tw_xla_extension extension;
  tw_xla_metadata* metadata;
} tw_xla_metadata_extension;
enum { TW_XLA_METADATA = 1, TW_XLA_BUFFER = 1, TW_XLA_EXECUTE = 3, TW_XLA_U8 = 6 };
enum { TW_XLA_INVALID = 3, TW_XLA_EXHAUSTED = 8, TW_XLA_UNIMPLEMENTED = 12 };

static void* tw_xla_error(const tw_xla_frame* frame, const char* function, int code,
                          const char* message) {
  char text[500];
  snprintf(text, sizeof text, "%s: %s", function, message);
  tw_xla_error_args args = {sizeof args, 0, text, code};
  return frame->api->create_error(&args);
}

/* Whether the frame only asks what this handler is; it is of the version that asks. */
static int tw_xla_is_asked(tw_xla_frame* frame, void** error) {
  *error = 0;
  tw_xla_extension* e = frame->extensions;
  if (!e || e->type != TW_XLA_METADATA) return 0;
  tw_xla_metadata* told = ((tw_xla_metadata_extension*)e)->metadata;
  if (frame->api->version.major != 0)
    *error = tw_xla_error(frame, "tilewright", TW_XLA_UNIMPLEMENTED,
                          "written for version 0 of XLA's foreign functions");
  told->version.major = 0;
  told->version.minor = frame->api->version.minor;
  told->traits = 0;
  if (told->struct_size >= sizeof *told) told->state_type = 0;
  return 1;
}

/* A buffer as the kernel takes it: aligned memory, its own where XLA's is not. */
typedef struct {
  void* data;
  void* copy;
  const tw_xla_buffer* buffer;
  size_t bytes;
} tw_xla_operand;

/* Null, or an error. `type` is XLA's, 0: bytes in whatever shape. */
static void* tw_xla_take(const tw_xla_frame* frame, const char* function, const char* name,
                         const tw_xla_buffer* b, int type, int rank, const int64_t* shape,
                         int64_t bytes, int written, tw_xla_operand* to) {
  char text[300];
  if (b->type != (type ? type : TW_XLA_U8)) {
    snprintf(text, sizeof text, "%s: expected elements of XLA's type %d%s, got type %d", name,
             type ? type : TW_XLA_U8, type ? "" : " (u8: bytes that hold several, or packed ones)",
             (int)b->type);
    return tw_xla_error(frame, function, TW_XLA_INVALID, text);
  }
  if (type && b->rank != rank) {
    snprintf(text, sizeof text, "%s: expected %d axes, got %d", name, rank, (int)b->rank);
    return tw_xla_error(frame, function, TW_XLA_INVALID, text);
  }
  int64_t count = 1;
  for (int d = 0; d < b->rank; ++d) {
    count *= b->dims[d];
    if (!type || b->dims[d] == shape[d]) continue;
    snprintf(text, sizeof text, "%s: expected size %lld along axis %d, got %lld", name,
             (long long)shape[d], d, (long long)b->dims[d]);
    return tw_xla_error(frame, function, TW_XLA_INVALID, text);
  }
  if (!type && count != bytes) {
    snprintf(text, sizeof text, "%s: expected %lld bytes, got %lld", name, (long long)bytes,
             (long long)count);
    return tw_xla_error(frame, function, TW_XLA_INVALID, text);
  }
  to->buffer = b;
  to->bytes = (size_t)bytes;
  to->data = b->data;
  if ((uintptr_t)b->data % 64 == 0) return 0;
  if (!(to->data = to->copy = aligned_alloc(64, (to->bytes + 64) / 64 * 64)))
    return tw_xla_error(frame, function, TW_XLA_EXHAUSTED, "out of memory");
  if (!written) memcpy(to->copy, b->data, to->bytes);
  return 0;
}

/* Copies go; a result's goes to XLA's memory. */
static void tw_xla_give(tw_xla_operand* operands, int count, int done) {
  for (int i = 0; i < count; ++i) {
    if (operands[i].copy && done && i == count - 1)
      memcpy(operands[i].buffer->data, operands[i].copy, operands[i].bytes);
    free(operands[i].copy);
  }
}

/* The size along an axis of an argument, or 0. */
static int64_t tw_xla_size(const tw_xla_frame* frame, int i, int axis) {
  const tw_xla_buffer* b = i < frame->in.size ? frame->in.buffers[i] : frame->out.buffers[0];
  return axis < b->rank ? b->dims[axis] : 0;
}
)C";

// XLA's number for an element that fills whole bytes.
std::optional<int> xla_type(ElemType elem) {
  switch (elem) {
    case ElemType::i8: return 2;
    case ElemType::i16: return 3;
    case ElemType::i32: return 4;
    case ElemType::i64: return 5;
    case ElemType::u8: return 6;
    case ElemType::u16: return 7;
    case ElemType::u32: return 8;
    case ElemType::u64: return 9;
    case ElemType::f16: return 10;
    case ElemType::f32: return 11;
    case ElemType::f64: return 12;
    case ElemType::bf16: return 16;
    case ElemType::f8e5m2: return 19;
    case ElemType::f8e4m3: return 20;
    case ElemType::e8m0: return 33;
    default: return std::nullopt;
  }
}

// The lines that take one operand.
std::string take_operand(const FfiFunction& f, size_t i, const std::vector<std::string>& dims) {
  const KernelParam& p = *f.params[i];
  const bool written = i + 1 == f.params.size();
  const std::optional<int> type = f.packed[i] ? std::nullopt : xla_type(p.elem);
  std::string shape;
  for (const KernelExtent& e : p.shape) shape += (shape.empty() ? "" : ", ") + e.to_c(dims);
  return fmt::format(
      "  const int64_t shape_{0}[] = {{{1}}};\n"
      "  if (!error) {{\n    error = tw_xla_take(frame, function, \"{2}\", {3}, {4}, {5}, "
      "shape_{0}, "
      "{6}, {7}, &operands[{0}]);\n  }}\n",
      i, shape.empty() ? "1" : shape, p.name,
      written ? "frame->out.buffers[0]" : fmt::format("frame->in.buffers[{}]", i), type.value_or(0),
      p.shape.size(), bytes_text(p, dims), written ? 1 : 0);
}

std::string handler_text(const FfiFunction& f, const ExportedKernel& k) {
  const std::vector<std::string> dims = c_dims(f, k);
  std::string names, body, data;
  for (size_t i = 0; i < f.params.size(); ++i) {
    names += (names.empty() ? "" : ", ") + f.params[i]->name;
    body += take_operand(f, i, dims);
    data += fmt::format("{}operands[{}].data", i == 0 ? "" : ", ", i);
  }
  const std::string sizes = read_dims(
      f, k,
      [](size_t i, size_t axis) { return fmt::format("tw_xla_size(frame, {}, {})", i, axis); },
      [](const std::string& message) {
        return fmt::format("tw_xla_error(frame, function, TW_XLA_INVALID, \"{}\")", message);
      });
  return fmt::format(
      "\nvoid* {0}_jax(tw_xla_frame* frame) {{\n"
      "  static const char* const function = \"{0}({1})\";\n  void* error;\n"
      "  if (tw_xla_is_asked(frame, &error)) return error;\n"
      "  if (frame->stage != TW_XLA_EXECUTE) return 0;\n"
      "  if (frame->in.size != {2} || frame->out.size != 1) {{\n"
      "    return tw_xla_error(frame, function, TW_XLA_INVALID, \"expected {2} arguments and one "
      "result\");\n  }}\n"
      "{3}  tw_xla_operand operands[{4}] = {{{{0}}}};\n{5}"
      "  const int64_t dims[] = {{{6}}};\n  (void)dims;\n  if (!error) {{\n"
      "    void* const found[] = {{{7}}};\n    if ({8} != 0) {{\n"
      "      error = tw_xla_error(frame, function, TW_XLA_EXHAUSTED, \"out of memory\");\n    }}\n"
      "  }}\n  tw_xla_give(operands, {4}, !error);\n  return error;\n}}\n",
      f.name, names, f.params.size() - 1, sizes, f.params.size(), body,
      dims.empty() ? "0" : fmt::to_string(fmt::join(dims, ", ")), data, f.call("found"));
}

}  // namespace

std::string jax_ffi_functions(const ExportedKernel& k) {
  std::string text = kXlaPrelude;
  for (const FfiFunction& f : ffi_functions(k)) text += handler_text(f, k);
  return text;
}

}  // namespace tilewright::cli
