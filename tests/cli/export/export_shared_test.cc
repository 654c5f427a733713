// tune-cli export --shared and --tvm-ffi: the objects are called from C by their symbols with values made
// by hand, and from Python where NumPy or tvm_ffi is found.
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
        "python3 ${XDG_CACHE_HOME:-$HOME/.cache}/tilewright/peers/tvm/bin/python";
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
