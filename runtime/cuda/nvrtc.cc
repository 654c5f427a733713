#include "runtime/cuda/nvrtc.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <climits>
#include <regex>
#include <sstream>

#include "base/knobs.h"
#include "kernel/prelude/cuda_prelude.h"
#include "runtime/cuda/libraries.h"
#include "runtime/error.h"

namespace tilewright::cuda {
namespace {

// The part of NVRTC's interface that is used, as its manual gives it.
using Program = void*;
struct NvrtcFunctions {
  int (*version)(int* major, int* minor);
  int (*count_archs)(int* count);
  int (*archs)(int* archs);
  int (*create)(Program* program, const char* source, const char* name, int headers,
                const char* const* texts, const char* const* names);
  int (*compile)(Program program, int options, const char* const* option);
  int (*cubin_size)(Program program, size_t* size);
  int (*cubin)(Program program, char* bytes);
  int (*ptx_size)(Program program, size_t* size);
  int (*ptx)(Program program, char* text);
  int (*log_size)(Program program, size_t* size);
  int (*log)(Program program, char* text);
  int (*destroy)(Program* program);
  const char* (*error)(int status);
};

struct Library {
  std::string problem;
  NvrtcFunctions f = {};
  int major = 0, minor = 0;
  std::vector<int> archs;
};

template <class F>
bool find_function(void* handle, const char* name, F& function) {
  function = reinterpret_cast<F>(dlsym(handle, name));
  return function != nullptr;
}

bool find_functions(void* handle, NvrtcFunctions& f) {
  return find_function(handle, "nvrtcVersion", f.version) &&
         find_function(handle, "nvrtcGetNumSupportedArchs", f.count_archs) &&
         find_function(handle, "nvrtcGetSupportedArchs", f.archs) &&
         find_function(handle, "nvrtcCreateProgram", f.create) &&
         find_function(handle, "nvrtcCompileProgram", f.compile) &&
         find_function(handle, "nvrtcGetCUBINSize", f.cubin_size) &&
         find_function(handle, "nvrtcGetCUBIN", f.cubin) &&
         find_function(handle, "nvrtcGetPTXSize", f.ptx_size) &&
         find_function(handle, "nvrtcGetPTX", f.ptx) &&
         find_function(handle, "nvrtcGetProgramLogSize", f.log_size) &&
         find_function(handle, "nvrtcGetProgramLog", f.log) &&
         find_function(handle, "nvrtcDestroyProgram", f.destroy) &&
         find_function(handle, "nvrtcGetErrorString", f.error);
}

// NVRTC asks the loader for its builtins by name alone, so the loader gets them from beside NVRTC,
// wherever that lies.
void load_builtins(void* handle, int major, int minor) {
  std::string folder(PATH_MAX, '\0');
  if (dlinfo(handle, RTLD_DI_ORIGIN, folder.data()) != 0) return;
  const std::string name = fmt::format("libnvrtc-builtins.so.{}.{}", major, minor);
  open_first({fmt::format("{}/{}", folder.c_str(), name)});
}

Library open_library() {
  Library library;
  std::string folder = knob_text(Knob::Cuda);
  if (folder == "off") {
    library.problem = "NVRTC is switched off (TILEWRIGHT_CUDA=off)";
    return library;
  }
  void* handle = open_first(toolkit_paths({"libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so"}));
  if (handle == nullptr) {
    library.problem = folder.empty()
                          ? "no NVRTC was found; install a CUDA toolkit, or name its folder in "
                            "TILEWRIGHT_CUDA"
                          : "no NVRTC was found in the folder '" + folder + "' (TILEWRIGHT_CUDA)";
    return library;
  }
  int count = 0;
  bool works = find_functions(handle, library.f) &&
               library.f.version(&library.major, &library.minor) == 0 &&
               library.f.count_archs(&count) == 0 && count > 0;
  if (works) {
    library.archs.resize(static_cast<size_t>(count));
    works = library.f.archs(library.archs.data()) == 0;
    load_builtins(handle, library.major, library.minor);
  }
  if (!works) library.problem = "the NVRTC that was found is too old or does not answer";
  return library;
}

// Never closed: it keeps threads and memory of its own.
const Library& library() {
  static const Library opened = open_library();
  return opened;
}

const Library& working_library() {
  const Library& lib = library();
  if (!lib.problem.empty()) throw ToolchainError(lib.problem);
  return lib;
}

std::string log_of(const NvrtcFunctions& f, Program program) {
  size_t size = 0;
  if (f.log_size(program, &size) != 0 || size <= 1) return "";
  std::string text(size, '\0');
  if (f.log(program, text.data()) != 0) return "";
  text.resize(size - 1);  // without its final zero
  return text;
}

// Destroys the program at the end of its scope.
struct ProgramGuard {
  const NvrtcFunctions& f;
  Program program;
  ~ProgramGuard() { f.destroy(&program); }
};

}  // namespace

const std::string& nvrtc_problem() { return library().problem; }

int nvrtc_major() { return library().major; }

std::string nvrtc_identity() {
  const Library& lib = working_library();
  return fmt::format("NVRTC {}.{}", lib.major, lib.minor);
}

bool nvrtc_accepts(std::string_view arch) {
  if (!library().problem.empty() || arch.substr(0, 3) != "sm_") return false;
  // A trailing letter asks for what only this architecture has.
  std::string digits(arch.substr(3));
  if (!digits.empty() && (digits.back() == 'a' || digits.back() == 'f')) digits.pop_back();
  const std::vector<int>& archs = library().archs;
  return std::any_of(archs.begin(), archs.end(),
                     [&](int known) { return std::to_string(known) == digits; });
}

namespace {

using SizeOf = int (*)(Program, size_t*);
using BytesOf = int (*)(Program, char*);

// An option for each name of a list with commas.
std::vector<std::string> macro_options(const std::string& names) {
  std::vector<std::string> options;
  std::istringstream list(names);
  for (std::string name; std::getline(list, name, ',');) {
    if (!name.empty()) options.push_back("--define-macro=" + name);
  }
  return options;
}

// Compiles for `machine` ("sm_80", "compute_80") and fetches one of the results.
std::string compile_and_fetch(const Library& lib, std::string_view text, std::string_view name,
                              const std::string& machine, SizeOf size_of, BytesOf bytes_of,
                              std::string* log = nullptr) {
  std::string file = fmt::format("{}.cu", name);
  std::string unit = cuda_translation_unit(text, file);
  std::string target = fmt::format("--gpu-architecture={}", machine);
  // No --restrict: what an earlier kernel makes may change until a dependent one has waited (TW_MADE).
  std::vector<const char*> options = {target.c_str(), "--std=c++17"};
  const std::string watchdog =
      fmt::format("--define-macro=TW_WATCHDOG={}000000ull", knob_integer(Knob::CudaWatchdog));
  if (knob_integer(Knob::CudaWatchdog) > 0) options.push_back(watchdog.c_str());
  const std::vector<std::string> macros = macro_options(knob_text(Knob::CudaMacros));
  for (const std::string& macro : macros) options.push_back(macro.c_str());
  ProgramGuard guard{lib.f, nullptr};
  if (int status = lib.f.create(&guard.program, unit.c_str(), file.c_str(), 0, nullptr, nullptr)) {
    throw CompileError(fmt::format("kernel '{}': NVRTC: {}", name, lib.f.error(status)));
  }
  if (int status = lib.f.compile(guard.program, static_cast<int>(options.size()), options.data())) {
    throw CompileError(fmt::format("kernel '{}' for {}: NVRTC: {}\n{}", name, machine,
                                   lib.f.error(status), log_of(lib.f, guard.program)));
  }
  const std::string said = log_of(lib.f, guard.program);
  for (const std::string& warning : performance_warnings(said)) {
    spdlog::warn("kernel '{}' for {}: {}", name, machine, warning);
  }
  if (log) *log = said;
  size_t size = 0;
  std::string result;
  bool got = size_of(guard.program, &size) == 0;
  if (got) {
    result.resize(size);
    got = bytes_of(guard.program, result.data()) == 0;
  }
  if (!got) {
    throw CompileError(fmt::format("kernel '{}' for {}: NVRTC gave no result", name, machine));
  }
  return result;
}

// Throws where there is no NVRTC, or one that does not know the architecture.
const Library& library_for(std::string_view name, std::string_view arch) {
  const Library& lib = working_library();
  if (!nvrtc_accepts(arch)) {
    throw CompileError(fmt::format("kernel '{}': {} does not compile for '{}'; it does for sm_{}",
                                   name, nvrtc_identity(), arch, fmt::join(lib.archs, ", sm_")));
  }
  return lib;
}

}  // namespace

std::vector<std::string> performance_warnings(const std::string& log) {
  // C7519 tells of a fence that was added, which costs next to nothing.
  static const std::regex number("\\(C75(?!19)\\d\\d\\)");
  std::vector<std::string> warnings;
  std::istringstream lines(log);
  for (std::string line; std::getline(lines, line);) {
    if (std::regex_search(line, number)) warnings.push_back(line);
  }
  return warnings;
}

std::string compile_to_cubin(std::string_view text, std::string_view name, std::string_view arch,
                             std::string* log) {
  const Library& lib = library_for(name, arch);
  return compile_and_fetch(lib, text, name, std::string(arch), lib.f.cubin_size, lib.f.cubin, log);
}

std::string compile_to_ptx(std::string_view text, std::string_view name, std::string_view arch) {
  const Library& lib = library_for(name, arch);
  std::string machine = "compute_" + std::string(arch.substr(3));
  std::string ptx = compile_and_fetch(lib, text, name, machine, lib.f.ptx_size, lib.f.ptx);
  while (!ptx.empty() && ptx.back() == '\0') ptx.pop_back();
  return ptx;
}

}  // namespace tilewright::cuda
