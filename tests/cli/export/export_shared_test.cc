// tune-cli export --shared, --tvm-ffi and --jax-ffi: the objects are called from C by their symbols with
// values made by hand, and from Python where NumPy, tvm_ffi or jax is found.
#include <gmock/gmock.h>

#include "tests/cli/support.h"

namespace tilewright::cli {
namespace {

using testing::HasSubstr;

class SharedExport : public Cli {
 protected:
  // Exports with these arguments to the folder "out" and returns its one result.
  Json export_one(const std::string& arguments) {
    Ran ran = run("export --json --threads 1 -o out " + arguments);
    EXPECT_EQ(ran.code, 0) << ran.err;
    return ran.code == 0 ? ran.json()["results"][0] : Json();
  }

  // Builds a C program that has the object's name as NAME, and runs it.
  Ran run_c(const std::string& name, const std::string& text) {
    std::ofstream(dir_ / "caller.c") << text;
    Ran built = shell("cc -std=gnu11 -Wall -Wextra -Werror -rdynamic -DNAME=" + name +
                      " caller.c -ldl -lm -o caller");
    EXPECT_EQ(built.code, 0) << built.err;
    return shell("./caller out/" + name + ".so");
  }

  // A Python that imports the module, or "".
  std::string python_with(const std::string& module) {
    const char* candidates =
        "python3 ${XDG_CACHE_HOME:-$HOME/.cache}/tilewright/peers/tvm/bin/python "
        "${XDG_CACHE_HOME:-$HOME/.cache}/tilewright/peers/jax/bin/python";
    Ran ran = shell(std::string("for p in ") + candidates + "; do $p -c 'import numpy, " + module +
                    "' 2>/dev/null && echo -n $p && break; done");
    return ran.out;
  }

  Ran run_python(const std::string& python, const std::string& name, const std::string& text) {
    std::ofstream(dir_ / "caller.py") << text;
    return shell("NAME=" + name + " " + python + " caller.py");
  }
};

// Shared by the C callers: the object's symbols by name, operands, the product in doubles.
const std::string kCPrelude = R"(
#include <dlfcn.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define TEXT2(x) #x
#define TEXT(x) TEXT2(x)
enum { M = 5, N = 12, K = 9 };
_Alignas(64) static float A[M * K + 16], B[K * N], C[M * N];
static void* object;
static void* find(const char* front, const char* back) {
  char symbol[200];
  snprintf(symbol, sizeof symbol, "%s%s%s", front, TEXT(NAME), back);
  void* f = dlsym(object, symbol);
  if (!f) { printf("no symbol %s", symbol); exit(1); }
  return f;
}
static void start(const char* path) {
  object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!object) { printf("%s", dlerror()); exit(1); }
  for (int i = 0; i < M * K; ++i) A[i] = (float)(i % 7) - 3;
  for (int i = 0; i < K * N; ++i) B[i] = (float)(i % 5) - 2;
}
static int right(int rows) {
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < N; ++j) {
      double sum = 0;
      for (int k = 0; k < K; ++k) sum += (double)A[i * K + k] * B[k * N + j];
      if (fabs(sum - C[i * N + j]) > 1e-4) return 0;
    }
  return 1;
}
)";

TEST_F(SharedExport, APlainSymbolTakesOperandsByNumber) {
  Json exported = export_one("--default --shared matmul:m=5,n=12,k=9");
  EXPECT_EQ(exported["files"].size(), 5u);
  const std::string name = exported["name"];
  Ran ran = run_c(name, kCPrelude + R"(
int main(int argc, char** argv) {
  (void)argc;
  start(argv[1]);
  int (*call)(const void* const*, void* const*, const int64_t*, const void*) = find("", "_call");
  const char* (*description)(void) = find("", "_description");
  puts(description());
  const void* in[] = {A, B};
  void* out[] = {C};
  if (call(in, out, 0, 0) != 0 || !right(M)) return 2;
  in[0] = A + 1;
  if (call(in, out, 0, 0) != -2) return 3;
  in[0] = 0;
  return call(in, out, 0, 0) == -2 ? 0 : 4;
})");
  ASSERT_EQ(ran.code, 0) << ran.out;
  Json description = Json::parse(ran.out);
  EXPECT_EQ(description["in"][1], Json::parse(R"({"name": "B", "type": "f32", "shape": [9, 12]})"));
  EXPECT_EQ(description["out"][0]["name"], "C");
  EXPECT_EQ(description["spec"], "matmul:m=5,n=12,k=9");
  // The line that is printed makes the same from the sources alone.
  std::string build = exported["shared_build"];
  Ran built = shell("cd out && rm " + name + ".so && " + build + " -Wall -Wextra -Werror");
  EXPECT_EQ(built.code, 0) << built.err;
  EXPECT_TRUE(fs::exists(dir_ / "out" / (name + ".so")));
  std::string source = read(dir_ / "out" / (name + "_shared.c"));
  EXPECT_THAT(source, HasSubstr("in[1]  B f32 [9, 12]"));
  EXPECT_EQ(source.find("__tvm_ffi_"), std::string::npos);
}

// Values as tvm-ffi hands them over, written down once more, and the function that takes errors.
const std::string kFfi = kCPrelude + R"(
typedef struct { int32_t device_type, device_id; } Device;
typedef struct { uint8_t code, bits; uint16_t lanes; } Dtype;
typedef struct {
  void* data; Device device; int32_t ndim; Dtype dtype; int64_t* shape; int64_t* strides;
  uint64_t byte_offset;
} Tensor;
typedef struct { uint64_t counts; int32_t type, pad; void* deleter; Tensor tensor; } TensorObject;
typedef struct { int32_t type; uint32_t zero; void* value; } Any;
typedef int (*Function)(void*, const Any*, int32_t, Any*);
void TVMFFIErrorSetRaisedFromCStr(const char* kind, const char* message) {
  printf("%s: %s\n", kind, message);
}
static Function function;
static Tensor a, b, c;
static TensorObject held;
static int64_t shape_a[] = {M, K}, shape_b[] = {K, N}, shape_c[] = {M, N};
static void reset(void) {
  a = (Tensor){A, {1, 0}, 2, {2, 32, 1}, shape_a, 0, 0};
  b = (Tensor){B, {1, 0}, 2, {2, 32, 1}, shape_b, 0, 0};
  c = (Tensor){C, {1, 0}, 2, {2, 32, 1}, shape_c, 0, 0};
  held = (TensorObject){1, 70, 0, 0, b};
}
static int called(int count) {
  Any args[] = {{7, 0, &a}, {70, 0, &held}, {7, 0, &c}}, result = {1, 1, &a};
  int status = function(0, args, count, &result);
  return status == 0 && (result.type != 0 || result.zero != 0) ? 9 : status;
}
)";

TEST_F(SharedExport, TheSymbolOfTvmFfiTakesTensorsAndRaisesErrors) {
  Json exported = export_one("--default --tvm-ffi matmul:m=1..5,n=12,k=9");
  const std::string name = exported["name"];
  Ran ran = run_c(name, kFfi + R"(
int main(int argc, char** argv) {
  (void)argc;
  start(argv[1]);
  function = find("__tvm_ffi_", "");
  reset();
  if (called(3) != 0 || !right(M)) return 2;
  shape_a[0] = shape_c[0] = 3;  /* a dynamic size is that of the tensors */
  memset(C, 0, sizeof C);
  if (called(3) != 0 || !right(3) || C[3 * N] != 0) return 3;
  shape_c[0] = 2;
  if (called(3) != -1) return 4;
  shape_a[0] = shape_c[0] = 6;
  if (called(3) != -1) return 5;
  shape_a[0] = shape_c[0] = M;
  if (called(2) != -1) return 6;
  a.dtype.bits = 64;
  if (called(3) != -1) return 7;
  reset();
  a.device.device_type = 2;
  if (called(3) != -1) return 8;
  reset();
  int64_t strides[] = {1, M};
  a.strides = strides;
  if (called(3) != -1) return 9;
  strides[0] = K, strides[1] = 1;
  if (called(3) != 0) return 10;
  a.byte_offset = 4;
  if (called(3) != -1) return 11;
  reset();
  c.ndim = 1;
  if (called(3) != -1) return 12;
  Any text = {11, 0, 0}, args[] = {text, text, text}, result = {0, 0, 0};
  shape_a[0] = M;
  return function(0, args, 3, &result) == -1 ? 0 : 13;
})");
  ASSERT_EQ(ran.code, 0) << ran.out;
  const std::string at = name + "(A, B, C): ";
  EXPECT_THAT(ran.out, HasSubstr("ValueError: " + at + "C: expected size 3 along axis 0, got 2"));
  EXPECT_THAT(ran.out, HasSubstr("ValueError: " + at + "expected m from 1 to 5"));
  EXPECT_THAT(ran.out, HasSubstr("TypeError: " + at + "expected 3 tensors"));
  EXPECT_THAT(ran.out, HasSubstr("TypeError: " + at +
                                 "A: expected elements of DLPack type 2 with 32 bits, got type 2 "
                                 "with 64 bits"));
  EXPECT_THAT(ran.out, HasSubstr("A: expected a tensor on the CPU, got one on device type 2"));
  EXPECT_THAT(ran.out, HasSubstr("A: expected contiguous elements, got stride"));
  EXPECT_THAT(ran.out, HasSubstr("A: expected memory that is aligned to 64 bytes"));
  EXPECT_THAT(ran.out, HasSubstr("C: expected 2 axes, got 1"));
}

// Called by whoever cannot take errors, it still says no.
TEST_F(SharedExport, WithoutTvmFfisLibraryOnlyTheStatusTells) {
  const std::string name = export_one("--default --tvm-ffi matmul:m=5,n=12,k=9")["name"];
  std::string text = kFfi;
  const std::string taker = "void TVMFFIErrorSetRaisedFromCStr";
  text.replace(text.find(taker), taker.size(), "void unused");
  Ran ran = run_c(name, text + R"(
int main(int argc, char** argv) {
  (void)argc;
  start(argv[1]);
  function = find("__tvm_ffi_", "");
  reset();
  return called(3) == 0 && right(M) && called(1) == -1 ? 0 : 2;
})");
  EXPECT_EQ(ran.code, 0) << ran.out;
}

TEST_F(SharedExport, NumPyCallsThePlainSymbol) {
  const std::string python = python_with("ctypes");
  if (python.empty()) GTEST_SKIP() << "no NumPy";
  ASSERT_EQ(run("tune --quiet --trials 4 --threads 1 matmul:m=8,n=32,k=16").code, 0);
  const std::string name = export_one("--shared matmul:m=8,n=32,k=16")["name"];
  Ran ran = run_python(python, name, R"(
import ctypes, json, os
import numpy as np

def aligned(shape, dtype=np.float32):
    size = int(np.prod(shape)) * np.dtype(dtype).itemsize
    memory = np.zeros(size + 64, np.uint8)
    start = -memory.ctypes.data % 64
    return memory[start:start + size].view(dtype).reshape(shape)

name = os.environ["NAME"]
library = ctypes.CDLL(os.path.abspath(f"out/{name}.so"))
describe = getattr(library, name + "_description")
describe.restype = ctypes.c_char_p
facts = json.loads(describe())
a, b, c = aligned((8, 16)), aligned((16, 32)), aligned((8, 32))
a[:] = np.random.default_rng(1).random(a.shape)
b[:] = np.random.default_rng(2).random(b.shape)
operands = {"A": a, "B": b}
for pack in facts["packs"]:
    packed = operands[pack["to"]] = aligned(pack["bytes"], np.uint8)
    pointers = [ctypes.c_void_p(operands[p["name"]].ctypes.data) for p in pack["from"]]
    assert getattr(library, pack["function"])(*pointers, ctypes.c_void_p(packed.ctypes.data)) == 0
inputs = (ctypes.c_void_p * len(facts["in"]))(*[operands[p["name"]].ctypes.data for p in facts["in"]])
outputs = (ctypes.c_void_p * 1)(c.ctypes.data)
assert getattr(library, name + "_call")(inputs, outputs, None, None) == 0
np.testing.assert_allclose(c, a @ b, rtol=1e-5)
print("same")
)");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "same\n");
}

TEST_F(SharedExport, TvmFfisOwnModuleLoadsIt) {
  const std::string python = python_with("tvm_ffi");
  if (python.empty()) GTEST_SKIP() << "no Python with tvm_ffi and NumPy";
  const std::string name = export_one("--default --tvm-ffi matmul:m=1..8,n=32,k=16")["name"];
  Ran ran = run_python(python, name, R"(
import os
import numpy as np
import tvm_ffi

def aligned(*shape):
    memory = np.zeros(int(np.prod(shape)) + 16, np.float32)
    start = -memory.ctypes.data % 64 // 4
    return memory[start:start + int(np.prod(shape))].reshape(shape)

function = tvm_ffi.load_module(f"out/{os.environ['NAME']}.so")[os.environ["NAME"]]
a, b, c = aligned(5, 16), aligned(16, 32), aligned(5, 32)
a[:] = np.random.default_rng(1).random(a.shape)
b[:] = np.random.default_rng(2).random(b.shape)
function(*(tvm_ffi.from_dlpack(x) for x in (a, b, c)))
np.testing.assert_allclose(c, a @ b, rtol=1e-5)
try:
    function(*(tvm_ffi.from_dlpack(x) for x in (a, a, c)))
except ValueError as error:
    print(error)
)");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("B: expected size 16 along axis 0, got 5"));
}

// A frame as XLA hands it over, written down once more.
const std::string kXla = R"C(
typedef struct { size_t size; void* extensions; int type; void* data; int64_t rank; int64_t* dims; } Buffer;
typedef struct { size_t size; void* extensions; int64_t count; int* types; Buffer** all; } Buffers;
typedef struct { size_t size; void* extensions; int major, minor; } Version;
typedef struct { size_t size; void* extensions; const char* message; int code; } Error;
typedef struct { size_t size; void* extensions; Version version; const void* inside; void* (*create)(Error*); } Api;
typedef struct { size_t size; void* extensions; const Api* api; void* context; int stage; Buffers in, out, attributes; } Frame;
typedef struct { size_t size; Version version; uint32_t traits; int64_t state; } Metadata;
typedef struct { size_t size; int type; void* next; Metadata* metadata; } Asked;
static void* create(Error* error) {
  printf("%d %s\n", error->code, error->message);
  return error;
}
static Api api = {sizeof api, 0, {sizeof(Version), 0, 0, 3}, 0, create};
static int64_t a_dims[] = {M, K}, b_dims[] = {K, N}, c_dims[] = {M, N};
static Buffer a = {sizeof a, 0, 11, A, 2, a_dims}, b = {sizeof b, 0, 11, B, 2, b_dims}, c = {sizeof c, 0, 11, C, 2, c_dims};
static Buffer *in[] = {&a, &b}, *out[] = {&c};
static Frame frame = {sizeof frame, 0, &api, 0, 3, {sizeof(Buffers), 0, 2, 0, in}, {sizeof(Buffers), 0, 1, 0, out},
                      {sizeof(Buffers), 0, 0, 0, 0}};
static void* (*handler)(Frame*);
int main(int argc, char** argv) {
  (void)argc;
  start(argv[1]);
  handler = find("", "_jax");
  Metadata metadata = {sizeof metadata, {sizeof(Version), 0, 7, 7}, 7, 7};
  Asked asked = {sizeof asked, 1, 0, &metadata};
  frame.extensions = &asked;
  if (handler(&frame) || metadata.version.major != 0 || metadata.version.minor != 3 || metadata.state) return 2;
  api.version.major = 1;
  if (!handler(&frame)) return 3;
  api.version.major = 0;
  frame.extensions = 0;
  frame.stage = 1;
  if (handler(&frame) || right(1)) return 4;
  frame.stage = 3;
  if (handler(&frame) || !right(M)) return 5;
  memmove(A + 1, A, sizeof(float) * M * K);  /* memory that is not aligned is copied */
  a.data = A + 1;
  memset(C, 0, sizeof C);
  if (handler(&frame)) return 6;
  memmove(A, A + 1, sizeof(float) * M * K);
  if (!right(M)) return 7;
  a.data = A;
  a.type = 10;
  if (!handler(&frame)) return 8;
  a.type = 11;
  a_dims[1] = K + 1;
  if (!handler(&frame)) return 9;
  a_dims[1] = K;
  a_dims[0] = 6;
  if (!handler(&frame)) return 10;
  a_dims[0] = M;
  c_dims[1] = 3;
  if (!handler(&frame)) return 11;
  frame.in.count = 1;
  return handler(&frame) ? 0 : 12;
})C";

TEST_F(SharedExport, HandlersOfXlaTakeFrames) {
  const std::string name = export_one("--default --jax-ffi matmul:m=1..5,n=12,k=9")["name"];
  Ran ran = run_c(name, kCPrelude + kXla);
  EXPECT_EQ(ran.code, 0) << ran.out;
  for (const char* line :
       {"12 tilewright: written for version 0 of XLA's foreign functions", "3 ",
        "(A, B, C): A: expected elements of XLA's type 11, got type 10",
        "A: expected size 9 along axis 1, got 10", "expected m from 1 to 5",
        "C: expected size 12 along axis 1, got 3", "expected 2 arguments and one result"}) {
    EXPECT_THAT(ran.out, HasSubstr(line));
  }
}

TEST_F(SharedExport, JaxCallsItUnderJit) {
  const std::string python = python_with("jax.ffi");
  if (python.empty()) GTEST_SKIP() << "no Python with jax and NumPy";
  const std::string spec = "matmul:m=1..8,n=64,k=128,w.dtype=u4,w.group=32,w.zero=u4";
  ASSERT_EQ(run("tune --quiet --trials 2 --threads 1 " + spec).code, 0);
  const std::string name = export_one("--jax-ffi " + spec)["name"];
  Ran ran = run_python(python, name, R"(
import ctypes, json, os
import jax, jax.numpy as jnp
import numpy as np

name = os.environ["NAME"]
library = ctypes.CDLL(os.path.abspath(f"out/{name}.so"))
describe = getattr(library, name + "_description")
describe.restype = ctypes.c_char_p
facts = json.loads(describe())
random = np.random.default_rng(1)
q, zero = random.integers(0, 16, (128, 64)), random.integers(0, 16, (4, 64))
scale = random.uniform(0.01, 0.03, (4, 64)).astype(np.float32)
pairs = lambda codes: (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
operands = {"B": pairs(q), "B.scale": scale, "B.zero": pairs(zero)}
handlers = [name] + [pack["function"] for pack in facts["packs"]]
for handler in handlers:
    jax.ffi.register_ffi_target(handler, jax.ffi.pycapsule(getattr(library, handler + "_jax")), platform="cpu")
for pack in facts["packs"]:
    call = jax.ffi.ffi_call(pack["function"], jax.ShapeDtypeStruct((pack["bytes"],), jnp.uint8))
    operands[pack["to"]] = call(*(operands[p["name"]] for p in pack["from"]))

@jax.jit
def layer(x):
    out = jax.ffi.ffi_call(name, jax.ShapeDtypeStruct((x.shape[0], 64), jnp.float32))
    given = {**operands, "A": jnp.tanh(x)}
    return out(*(given[p["name"]] for p in facts["in"])) + 1

w = (q - np.repeat(zero, 32, 0)) * np.repeat(scale, 32, 0)
for rows in (1, 3, 8):
    x = random.standard_normal((rows, 128)).astype(np.float32)
    np.testing.assert_allclose(layer(x), np.tanh(x) @ w + 1, rtol=1e-4, atol=1e-4)
for bad in (jnp.ones((2, 128), jnp.bfloat16), jnp.ones((9, 128)), jnp.ones((2, 127))):
    try:
        jax.block_until_ready(layer(bad))
    except Exception as error:
        print(str(error).splitlines()[0])
)");
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_THAT(ran.out, HasSubstr("A: expected elements of XLA's type 11, got type 16"));
  EXPECT_THAT(ran.out, HasSubstr("expected m from 1 to 8"));
  EXPECT_THAT(ran.out, HasSubstr("A: expected size 128 along axis 1, got 127"));
}

// A tuned kernel of two threads runs on OpenMP's, with weights that are packed once.
TEST_F(SharedExport, KernelsForSeveralThreadsUseOpenMp) {
  ASSERT_EQ(run("tune --quiet --trials 2 --threads 2 matmul:m=5,n=12,k=9").code, 0);
  Ran exported = run("export --json --threads 2 --shared -o out matmul:m=5,n=12,k=9");
  ASSERT_EQ(exported.code, 0) << exported.err;
  const std::string build = exported.json()["results"][0]["shared_build"];
  EXPECT_THAT(build, HasSubstr(" -fopenmp "));
}

TEST_F(SharedExport, ObjectsAreMadeForProcessors) {
  Ran ran = run("export --default --shared -o out --target cuda:sm_80 matmul:m=8,n=8,k=8");
  EXPECT_EQ(ran.code, 2);
  EXPECT_THAT(ran.err, HasSubstr("--shared: shared objects are made for CPU targets; the target is "
                                 "cuda:sm_80"));
  EXPECT_FALSE(fs::exists(dir_ / "out"));
}

}  // namespace
}  // namespace tilewright::cli
