// Compiles kernels with the system's compilers, remembering results by content.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernel/kernel_source.h"

namespace tilewright {

struct CompileOptions {
  std::string compiler;        // empty: the knob TILEWRIGHT_CC, or TILEWRIGHT_CXX for C++
  double timeout_seconds = 0;  // 0: the knob TILEWRIGHT_COMPILE_TIMEOUT
  bool use_cache = true;
};

struct CompiledObject {
  std::string object;    // the bytes of a shared object
  std::string path;      // where the cache keeps it; empty when it keeps nothing
  std::string hash;      // 16 hex digits: xxh3 of the bytes
  std::string compiler;  // compiler_identity
  bool cached = false;
  double seconds = 0;  // of this call
};

// Throws ToolchainError when there is no working compiler or it has no room for its files,
// CompileError when it refuses the source.
// Safe from many threads and processes at once.
CompiledObject compile(const KernelSource& source, const CompileOptions& options = {});

// The bytes of an object that the cache keeps at `path` (CompiledObject::path), without what the
// cache adds to them; nothing when it is gone or damaged.
std::optional<std::string> read_cached_object(const std::string& path);

// The first line of `compiler --version`, asked once a process and compiler; by default of the
// language's. Throws ToolchainError.
std::string compiler_identity(const std::string& compiler = {},
                              SourceLanguage language = SourceLanguage::C);

// The command line that `source` is compiled with, the output's path last: for messages and
// exported sources.
std::vector<std::string> compile_command(const KernelSource& source, const std::string& compiler,
                                         const std::string& output);

// Assembly text of the source, compiled with the same flags. Throws as compile().
std::string compile_to_assembly(const KernelSource& source, const CompileOptions& options = {});

// Drops the least recently used kernels until the cache is no larger than `max_bytes`.
void prune_compile_cache(int64_t max_bytes);

}  // namespace tilewright
