// Hand-written kernels for the runtime's tests.
#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <optional>
#include <string>

#include "kernel/kernel_source.h"

namespace tilewright::test {

inline constexpr double kPatience = 60;  // seconds for a job that ends

// The part of the calling convention that a generated kernel carries.
inline const std::string kPrelude = R"(
typedef int int32_t;
typedef long int64_t;
typedef struct tw_context {
  int32_t threads;
  void (*parallel_for)(void*, int64_t, void (*)(void*, int64_t, int64_t, int32_t), void*);
  void* pool;
  void* workspace;
} tw_context;
)";

inline KernelParam param(std::string name, std::vector<KernelExtent> shape,
                         ParamRole role = ParamRole::Input, ElemType elem = ElemType::f32) {
  return {std::move(name), elem, std::move(shape), role};
}

// A kernel "kernel(A[n], C[n])" with this body; `a` and `c` are its operands as floats.
inline KernelSource unary_kernel(const std::string& body, int64_t n) {
  KernelSource source;
  source.code = kPrelude +
                "int32_t kernel(void* const* args, const int64_t* dims, "
                "const tw_context* context) {\n"
                "  float* a = args[0];\n  float* c = args[1];\n  const int64_t n = " +
                std::to_string(n) + ";\n  (void)a; (void)c;\n" + body + "\n  return 0;\n}\n";
  source.description.main.symbol = "kernel";
  source.description.main.params = {param("A", {n}), param("C", {n}, ParamRole::Output)};
  return source;
}

// A directory that goes with the object.
class TempDir {
 public:
  TempDir() {
    std::string pattern = std::filesystem::temp_directory_path() / "tilewright-test.XXXXXX";
    path_ = mkdtemp(pattern.data());
  }
  ~TempDir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string path(const std::string& name = "") const {
    return name.empty() ? path_ : path_ + "/" + name;
  }

 private:
  std::string path_;
};

// Sets an environment variable (nothing: unsets it) until the end of the scope.
class ScopedEnv {
 public:
  ScopedEnv(const char* name, const std::optional<std::string>& value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    set(value);
  }
  ~ScopedEnv() { set(old_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_, value->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

// The message of the E that `f` throws, or "" when it does not throw.
template <class E, class F>
std::string error_of(F&& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "";
}

}  // namespace tilewright::test
