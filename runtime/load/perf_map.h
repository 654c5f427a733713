// Names of placed code for profilers.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tilewright {

// Tells perf whose code stands there, where TILEWRIGHT_PERF_MAP asks for it: one line in /tmp/perf-PID.map, as
// Linux' tools/perf/Documentation/jit-interface.txt has them. The line is cut at 200 characters of the name. A
// file that cannot be written is left aside: nothing but a profile misses it.
void name_code(const void* first, size_t bytes, std::string_view name);

// The path of this process's file.
std::string perf_map_path();

}  // namespace tilewright
